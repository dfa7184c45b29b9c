"""The algorithms by name: ours, in the list below, and those that others register.

A new one of ours is a file here, and its entry in the list.
"""

from prudent.algorithms.cal import CAL, UCB
from prudent.algorithms.cppo_pid import CPPO_PID
from prudent.algorithms.crpo import CRPO
from prudent.algorithms.cup import CUP
from prudent.algorithms.cvpo import CVPO
from prudent.algorithms.entry import Entry, check_entry
from prudent.algorithms.ipo import IPO
from prudent.algorithms.pdo import PDO
from prudent.algorithms.ppo import PPO
from prudent.algorithms.ppo_lag import PPO_LAG
from prudent.algorithms.rcpo import RCPO
from prudent.algorithms.sac_lag import SAC, SAC_LAG
from prudent.algorithms.sac_pid import SAC_PID
from prudent.algorithms.wcsac import WCSAC
from prudent.settings.registration import OURS, Registry

ALGORITHMS: Registry[Entry] = Registry("algorithm", "prudent.algorithms", check_entry)
for _entry in (
    *(CAL, UCB, SAC_LAG, SAC, SAC_PID, WCSAC, CVPO),
    *(PDO, RCPO, IPO, CRPO, CUP, PPO_LAG, CPPO_PID, PPO),
):
    ALGORITHMS.register(_entry, OURS)


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
