"""One file per figure or table of the paper."""

from pkgutil import iter_modules

EXPERIMENTS = tuple(sorted(module.name.replace("_", "-") for module in iter_modules(__path__)))
