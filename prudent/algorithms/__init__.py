"""The algorithms by name. A new one is a file here, and its entry in the list below."""

from prudent.algorithms.cal import CAL, UCB
from prudent.algorithms.cppo_pid import CPPO_PID
from prudent.algorithms.crpo import CRPO
from prudent.algorithms.cup import CUP
from prudent.algorithms.cvpo import CVPO
from prudent.algorithms.entry import Entry
from prudent.algorithms.ipo import IPO
from prudent.algorithms.pdo import PDO
from prudent.algorithms.ppo import PPO
from prudent.algorithms.ppo_lag import PPO_LAG
from prudent.algorithms.rcpo import RCPO
from prudent.algorithms.sac_lag import SAC, SAC_LAG
from prudent.algorithms.sac_pid import SAC_PID
from prudent.algorithms.wcsac import WCSAC

ALGORITHMS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *(CAL, UCB, SAC_LAG, SAC, SAC_PID, WCSAC, CVPO),
        *(PDO, RCPO, IPO, CRPO, CUP, PPO_LAG, CPPO_PID, PPO),
    )
}


def find_algorithm(name: str) -> Entry:
    if name not in ALGORITHMS:
        raise ValueError(f"no algorithm {name!r}; there is: {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]
