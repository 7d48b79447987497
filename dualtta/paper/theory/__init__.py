"""The quantities of the paper's supplement on a model and a stream: margins against the style perturbations that flip them, the
style component of the gradient, and the error of the first-order approximation.

    from dualtta.paper.theory import diagnose

    diagnosis = diagnose(model, batches)
    print(*diagnosis.sentences, sep="\\n")

The supplement calls *sa* (style-altering) what the main text calls *sp* (semantic-preserving): one transform, the style view.
"""

from dualtta.paper.theory.diagnose import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
