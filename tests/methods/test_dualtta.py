"""DualTTA averages D+ and D-; what earlier versions stored with sums stays readable, and is not taken for means."""

import pytest

import dualtta
from dualtta.methods import change_words, changed_defaults, make_method
from dualtta.testing import run, same, same_step, small_net, small_stream

LOOSE = {"tau_sa": 0.05, "tau_sp": 0.1}


def test_the_default_of_dualtta_is_the_mean():
    assert make_method("dualtta").reduction == "mean"


def test_a_state_with_sums_loads_into_an_adapter_with_sums_and_no_other(tmp_path):
    saved = dualtta.adapt(small_net(), "dualtta", reduction="sum", **LOOSE)
    run(saved, small_stream())
    saved.save(tmp_path / "state")  # earlier versions wrote their default out, so the file is theirs
    mean = dualtta.adapt(small_net(), "dualtta", **LOOSE)
    with pytest.raises(ValueError, match="saved with reduction='sum'; this adapter has 'mean'"):
        mean.load(tmp_path / "state")
    assert same(mean.weights.values(), mean.weights.source)
    loaded = dualtta.adapt(small_net(), "dualtta", reduction="sum", **LOOSE)
    loaded.load(tmp_path / "state")
    assert all(map(same_step, run(loaded, small_stream()), run(saved, small_stream())))


def test_records_with_sums_are_named_unless_the_sum_was_chosen():
    def changed(**chosen):
        return changed_defaults(
            {"cell": {"method": {"name": "dualtta", **chosen}}, "method": {"name": "dualtta", "reduction": "sum"}}
        )

    assert change_words(changed()) == "reduction sum, now mean"
    assert changed(reduction="sum") == {}
    assert changed(tau_sa=-7.0) == {}  # a value that the method refuses: nothing to compare with
