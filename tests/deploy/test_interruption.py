"""Predictions and state survive kills, Ctrl-C and full disks; a resumed run ends with the same files."""

import os
import random
import shutil
import signal

import pytest

from dualtta import state as states
from dualtta.adapter import KIND
from dualtta.cli import main


@pytest.mark.slow
def test_a_run_killed_at_random_moments_and_resumed_ends_with_the_same_files(
    undisturbed, tmp_path, arguments, rows_of, same_files, start
):
    out = tmp_path / "p.csv"
    dice = random.Random(11)
    killed = 0
    for _ in range(6):
        child = start(arguments(out, "--save-every", 0, "--resume"))
        child.process.join(dice.uniform(0.02, 0.5))
        if child.process.is_alive():
            child.process.kill()
            killed += 1
        child.process.join()
        child.ours.close()
    assert killed
    if out.exists():
        for row in rows_of(out):
            assert None not in row.values()  # whole rows only
    assert start(arguments(out, "--resume")).end()[0] == 0
    assert same_files(out, undisturbed[0])


@pytest.mark.slow
def test_rows_after_the_last_state_are_made_again(undisturbed, tmp_path, same_files, adapt_photos):
    """Killed between writing the rows of a batch and saving the state, at every possible point."""
    whole = undisturbed[0].read_bytes()
    for stop in (1, 5, 15):
        out = tmp_path / f"{stop}.csv"
        count = iter(range(1000))
        adapt_photos(out, stop=lambda count=count, stop=stop: next(count) + 1 >= stop)
        assert whole.startswith(out.read_bytes())
        size = out.stat().st_size
        for tail in (b"", whole[size : size + 40], whole[size : size + 900], b"torn, ro"):
            with out.open("ab") as file:
                file.write(tail)
            state = out.with_suffix(".safetensors").read_bytes()
            adapt_photos(out, resume=True)
            assert same_files(out, undisturbed[0]), (stop, tail)
            out.write_bytes(whole[:size])
            out.with_suffix(".safetensors").write_bytes(state)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.slow
def test_ctrl_c_leaves_a_valid_csv_and_its_state(
    number, code, photos, undisturbed, tmp_path, arguments, rows_of, same_files, start
):
    out = tmp_path / "p.csv"
    many = tmp_path / "many"  # enough images that the signal comes before the end
    for copy in range(6):
        shutil.copytree(photos / "b", many / str(copy))
    child = start(arguments(out, "--save-every", 1000, images=many))
    while not out.exists() or out.stat().st_size < 2000:
        assert child.process.is_alive()
        child.process.join(0.005)
    os.kill(child.process.pid, number)
    ended, said = child.end()
    assert ended == code
    assert "interrupted; continue with --resume" in said
    done = len(rows_of(out))
    assert done % 8 == 0
    assert 0 < done < 6 * 81
    fresh = tmp_path / "whole.csv"
    assert main(arguments(fresh, images=many)) == 0
    assert fresh.read_bytes().startswith(out.read_bytes())
    assert main(arguments(out, "--resume", images=many)) == 0
    assert same_files(out, fresh)


def test_a_finished_run_is_not_overwritten_and_resuming_it_changes_nothing(undisturbed, capsys, arguments):
    out, _ = undisturbed
    before = out.read_bytes(), out.with_suffix(".safetensors").read_bytes()
    assert main(arguments(out)) == 2
    assert "exists already: continue it with --resume" in capsys.readouterr().err
    assert main(arguments(out, "--resume")) == 0
    assert (out.read_bytes(), out.with_suffix(".safetensors").read_bytes()) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--batch-size", "16"], "saved with batch_size 8, not 16"),
        (["--lr", "0.02"], "saved with lr=0.01"),
        (["--set", "lam=0.1"], "saved with lam=0.5"),
        (["--method", "tent", "--set", "spare=0.0"], "tent has no setting"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(change, says, undisturbed, capsys, arguments):
    out, _ = undisturbed
    before = out.read_bytes()
    assert main(arguments(out, "--resume", *change)) == 2
    assert says in capsys.readouterr().err
    assert out.read_bytes() == before


def test_a_run_is_not_resumed_with_other_images_weights_or_a_changed_csv(photos, tmp_path, adapt_photos):
    out = tmp_path / "p.csv"
    count = iter(range(1000))
    adapt_photos(out, stop=lambda: next(count) >= 2)
    with pytest.raises(ValueError, match="saved with origin"):
        adapt_photos(out, resume=True, origin="another file")
    fewer = tmp_path / "fewer"
    fewer.mkdir()
    (fewer / "x.png").write_bytes((photos / "b" / "002.png").read_bytes())
    with pytest.raises(ValueError, match="first images are not those that were done"):
        adapt_photos(out, images=fewer, resume=True)
    out.write_bytes(out.read_bytes().replace(b"0", b"7", 1))
    with pytest.raises(ValueError, match="has been changed: remove it"):
        adapt_photos(out, resume=True)
    out.unlink()
    with pytest.raises(ValueError, match="which does not exist"):
        adapt_photos(out, resume=True)


def test_resuming_never_removes_another_csv(tmp_path, adapt_photos):
    out = tmp_path / "p.csv"
    out.write_text("name,salary\n")
    with pytest.raises(ValueError, match="not a CSV file of predictions"):
        adapt_photos(out, resume=True)
    assert out.read_text() == "name,salary\n"


@pytest.mark.parametrize("limit", [50, 3000])
@pytest.mark.slow
def test_a_full_disk_is_one_line_and_leaves_whole_batches(limit, undisturbed, tmp_path, arguments, rows_of, same_files, start):
    out = tmp_path / "p.csv"
    code, said = start(arguments(out, "--save-every", 1000), largest=limit).end()
    assert code == 2
    assert [line for line in said.splitlines() if "File too large" in line] == said.splitlines()[-1:]
    names = {path.name for path in tmp_path.iterdir()}
    if out.exists():
        assert undisturbed[0].read_bytes().startswith(out.read_bytes())
        assert out.read_bytes().endswith(b"\n")
        assert len(rows_of(out)) % 8 == 0
    assert names <= {"p.csv"}  # no part of a state, no leftovers
    assert main(arguments(out, "--resume")) == 0
    assert same_files(out, undisturbed[0])


def test_states_without_class_names_can_be_resumed(tmp_path, arguments):
    names, out = tmp_path / "classes.txt", tmp_path / "p.csv"
    names.write_text("\n".join(f"kind {number}" for number in range(10)))
    assert main(arguments(out, "--classes", names)) == 0
    tensors, header = states.read(out.with_suffix(".safetensors"), KIND)
    del header["deployment"]["about"]["class_names"]
    states.write(out.with_suffix(".safetensors"), KIND, tensors, header)
    assert main(arguments(out, "--classes", names, "--resume")) == 0
