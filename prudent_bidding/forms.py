"""Limits on what an advertiser gets for its money, as sums of step costs."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple


class Form(NamedTuple):
    # pay, gmv, target ROI, budget (numbers or arrays, of any library) -> cost of a step
    step_cost: Callable[[Any, Any, Any, Any], Any]
    bound: float  # what the expected sum, or for `ratio` the quotient, may reach


# ROI is GMV / pay, and the limit is that it reach its target R. With B the budget for pay:
#
#   deficit   E Σ (R pay - gmv) / (R B) <= 0      what is missing, as a share of the budget
#   ratio     E[Q(-gmv / R) / Q(pay)]   <= -1     `constraint="ratio"`; reward must be pay
#   budget    E Σ -gmv / (R B)          <= -1     GMV for the whole budget, spent or not
FormName = Literal["deficit", "ratio", "budget"]
FORMS: Mapping[FormName, Form] = {
    "deficit": Form(lambda pay, gmv, roi, budget: (roi * pay - gmv) / (roi * budget), 0.0),
    "ratio": Form(lambda pay, gmv, roi, budget: -gmv / roi, -1.0),
    "budget": Form(lambda pay, gmv, roi, budget: -gmv / (roi * budget), -1.0),
}
