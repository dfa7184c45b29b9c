"""The algorithms by name: ours, in the table below, and those that others register.

A new one of ours is a file here, and its line in the table.
"""

from typing import TYPE_CHECKING

from prudent.algorithms.entry import Entry, check_entry
from prudent.backend import prepare
from prudent.settings.registration import Home, Registry, outdated
from prudent.settings.run import Run
from prudent.settings.schedules import OnPolicySchedule

if TYPE_CHECKING:
    from prudent.pieces.types import Algorithm, Spec

OURS = {  # in the order of lists and figures: by name, the module of its entry and what it is
    "cal": Home("cal:CAL", "conservative augmented Lagrangian SAC (the paper's method)"),
    "sac-lag": Home("sac_lag:SAC_LAG", "SAC with one cost critic and a Lagrange multiplier"),
    "ucb": Home("cal:UCB", "CAL without the quadratic term (UCB-k)"),
    "sac": Home("sac_lag:SAC", "soft actor-critic, cost ignored but estimated"),
    "sac-pid": Home("sac_pid:SAC_PID", "SAC with a PID-controlled cost multiplier"),
    "wcsac": Home("wcsac:WCSAC", "SAC that bounds the mean of the worst outcomes"),
    "cvpo": Home("cvpo:CVPO", "constrained variational policy optimisation"),
    "pdo": Home("pdo:PDO", "primal-dual policy gradient, on-policy"),
    "rcpo": Home("rcpo:RCPO", "natural gradient of the Lagrangian, on-policy"),
    "ipo": Home("ipo:IPO", "PPO with a log barrier"),
    "crpo": Home("crpo:CRPO", "trust region: reward while the budget is kept, else cost"),
    "cup": Home("cup:CUP", "PPO, then projection towards lower cost"),
    "ppo-lag": Home("ppo_lag:PPO_LAG", "PPO with a Lagrange multiplier"),
    "cppo-pid": Home("cppo_pid:CPPO_PID", "PPO with a multiplier under PID control"),
    "ppo": Home("ppo:PPO", "proximal policy optimisation, cost ignored but estimated"),
}
ALGORITHMS: Registry[Entry] = Registry(
    "algorithm",
    "prudent.algorithms",
    check_entry,
    {name: home._replace(place=f"prudent.algorithms.{home.place}") for name, home in OURS.items()},
    prepare=prepare,  # these modules import JAX, which reads its flags then
)


def find_algorithm(name: str) -> Entry:
    return ALGORITHMS.find(name)


def register_algorithm(entry: Entry, *, replace: bool = False) -> Entry:
    """Make an algorithm of your own known by its name, in this process.

    `prudent.train`, `resume`, `evaluate`, `export` and `load` then take it as one of ours. With
    `replace` it takes the place of one that was registered so before, as when a notebook's cell is
    run again. Other processes (the command line, the runs of a grid) know it when its package is
    installed with an entry point of its name in the group `prudent.algorithms`; such a package
    registers nothing itself.
    """
    return ALGORITHMS.register(entry, replace=replace)


def build_for(run: Run, spec: "Spec") -> "Algorithm":
    """The run's algorithm, for observations as the environment gives them."""
    from prudent.pieces.normaliser import normalising
    from prudent.pieces.types import Algorithm

    build = find_algorithm(run.algorithm).build
    try:
        algorithm = build(run.config, spec)
    except AttributeError as error:
        if not outdated(error):
            raise
        raise ValueError(f"{run.algorithm}: {error}{outdated(error)}") from error
    if not isinstance(algorithm, Algorithm):
        raise ValueError(
            f"{run.algorithm}: build returned a {type(algorithm).__name__}; a "
            "prudent.pieces.types.Algorithm is needed"
        )
    if isinstance(run.schedule, OnPolicySchedule):
        return normalising(algorithm, spec.observation_size)
    return algorithm
