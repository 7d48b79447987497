"""The paper's supplement, measured: margins against the style perturbations that flip them, the style part of the gradient, and
how far first order carries.

    diagnosis = dualtta.theory.diagnose(model, batches)
    print(*diagnosis.sentences, sep="\\n")

The supplement calls *sa* (style-altering) what the main text calls *sp* (semantic-preserving): one transform, the style view.
"""

from dualtta.paper.theory.diagnose import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
