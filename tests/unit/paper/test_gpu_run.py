"""`benchmarks/gpu_run.py` on a stand-in for the device: what is timed has run before, as it is."""

import pytest
from benchmarks import gpu_run

import stand_in_device
from privest.estimator import _mle


@pytest.mark.parametrize(("part", "scale"), [("laplace_times", 500), ("cauchy_times", 50_000)])
def test_a_timed_call_has_run_before_at_its_size_and_on_its_kind_of_arrays(
    tmp_path, monkeypatch, part, scale
):
    """Else the first compilation is in the time: 3 s of 3.3 s where arrays of CuPy came in."""
    monkeypatch.setenv("OUT", str(tmp_path))
    stand_in_device.installed(monkeypatch)
    found = {"checks": {}, "times": {}, "failed": []}
    monkeypatch.setattr(gpu_run, "FOUND", found)
    calls, before, estimate, timed = [], [], _mle.maximum_likelihood, gpu_run.timed

    def seen(H, z, likelihood, backend):
        calls.append((type(likelihood), type(z), len(z)))
        return estimate(H, z, likelihood, backend=backend)

    def recorded(name, *more, **options):
        result = timed(name, *more, **options)
        if "from seed" not in name:  # 10⁸ trials: 20 s, of which a compilation is a small part
            before.append(calls[-1] in calls[:-1])
        return result

    monkeypatch.setattr(_mle, "maximum_likelihood", seen)
    monkeypatch.setattr(gpu_run, "timed", recorded)
    try:
        getattr(gpu_run, part)(scale)
    finally:
        stand_in_device.forgotten()
    assert found["failed"] == []
    assert before == [True, True]
    assert all(row["seconds"] > 0 for row in found["times"].values())
