import os

import pytest

from dualtta.processes import WorkerDied, cores, pooled, run, stopping


def double(number):
    return 2 * number


def die_at(number, fatal):
    if number == fatal:
        os._exit(3)
    return number


_numbered = []


def remember(worker):
    _numbered.append(worker)


def remembered(task):
    return list(_numbered)


def fail(number):
    raise ValueError(f"no {number}")


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_done_whatever_the_number_of_workers(workers):
    results = []
    run(double, ((n,) for n in range(20)), workers, results.append)
    assert sorted(results) == [2 * n for n in range(20)]


def test_setup_runs_once_in_each_worker_with_its_number():
    seen = {tuple(numbers) for _, numbers in pooled(remembered, [(n,) for n in range(8)], 2, setup=remember)}
    assert seen <= {(0,), (1,)}
    assert not _numbered  # not in this process


@pytest.mark.parametrize("kill", [False, True])
def test_a_worker_that_dies_is_one_clear_error(kill):
    with pytest.raises(WorkerDied, match="run the same command again"):
        list(pooled(die_at, [(n, 1) for n in range(3)], 1, kill=kill))


@pytest.mark.parametrize("kill", [False, True])
def test_an_error_of_a_task_is_raised_here(kill):
    with pytest.raises(ValueError, match="no 0"):
        list(pooled(fail, [(0,)], 1, kill=kill))


def test_outside_a_worker_nothing_is_stopping():
    assert not stopping()
    assert cores() >= 1
