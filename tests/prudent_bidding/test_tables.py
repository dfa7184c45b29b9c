"""The best constant in hindsight."""

from prudent_bidding import tables


def test_the_best_constant_pays_most_within_the_constraint():
    def made(pay, deficit, **others):
        numbers = {"pay_per_day": pay, "deficit": deficit, **others}
        return {name: {"value": value} for name, value in numbers.items()}

    references = {
        "constant:0.7": made(1.0, -0.1), "constant:0.8": made(2.0, -0.01),
        "constant:0.9": made(3.0, 0.1), "feedback:0.9": made(9.0, -1.0),
    }  # fmt: skip
    assert tables.best_constant(references, "deficit") == "constant:0.8"
    broken = {"constant:0.7": made(1.0, 0.2), "constant:1": made(1.0, 1.2)}
    assert tables.best_constant(broken, "deficit") == "constant:0.7"
    assert tables.best_constant({}, "deficit") is None
    # Any constant counts, and by the form that was learned with: a day's GMV for all its budget.
    unusual = {
        "constant:0.55": made(1.0, -0.1, budget=-1.1, ratio=-1.2),
        "constant:0.85": made(2.0, -0.1, budget=-0.9, ratio=-1.05),
        "constant:1.25": made(3.0, -0.1, budget=-0.8, ratio=-0.9),
    }
    best = {form: tables.best_constant(unusual, form) for form in ("deficit", "ratio", "budget")}
    assert list(best.values()) == ["constant:1.25", "constant:0.85", "constant:0.55"]
    assert tables.best_constant(references, "budget") is None  # of an older version
