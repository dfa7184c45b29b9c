"""The matrix products that a program needs, read from its trace.

The program is traced into a jaxpr, whose values become a graph: calls are entered, equal values are
one node, and what no result depends on is never reached. So a product is counted once however often
the code asks for it, and not at all where nobody uses it, as XLA would have it. The jaxpr serves
better than the optimised HLO, where XLA has turned products into fusions, custom calls or sums in
ways that change with its version and the processor; of the jaxpr, nothing is read but names,
parameters and shapes.

A product counts once per iteration of the innermost loop in which its operands change. A `while`
loop whose length the trace does not know counts as one iteration, and of a `cond` the branch with
the most work is taken for the one that runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# NumPy takes more than a microsecond to call BLAS, in which a core does far more multiply-adds than
# these. CVPO has 3x3 products for every state and step of its policy: their calls took as long as
# 4 to 6 % of its update, for 0.02 % of its arithmetic.
SMALLEST = 512


class Product(NamedTuple):
    """A matrix product [rows, inner] x [inner, columns] that one update needs `times` times."""

    use: str  # forward, or gradient
    rows: int
    inner: int
    columns: int
    times: int


class Loop(NamedTuple):
    depth: int
    iterations: int  # those of the loops around it included


class Node(NamedTuple):
    """One value of the program."""

    needs: list[int]  # what it is made of; a loop's carry also needs what the loop makes of it
    loop: int  # the innermost in which it changes
    product: Product | None = None


class Graph(NamedTuple):
    """Nodes and loops by their numbers; `known` finds the nodes of an equation by its key."""

    nodes: list[Node]
    loops: list[Loop]
    known: dict[tuple[Any, ...], list[int]]


def traced_products(function: Callable[..., Any], *arguments: Any) -> list[Product]:
    """Products of one call, equal ones taken together. The arguments may be mere shapes."""
    graph = Graph([], [Loop(depth=0, iterations=1)], {})
    program = jax.make_jaxpr(function)(*arguments)
    results = enter(graph, program, [add(graph, []) for _ in program.jaxpr.invars])
    times: Counter[Product] = Counter()
    for product in needed(graph, results):
        times[product._replace(times=0)] += product.times
    return [product._replace(times=total) for product, total in times.items()]


def multiply_adds(products: Iterable[Product]) -> int:
    return sum(p.rows * p.inner * p.columns * p.times for p in products)


def needed(graph: Graph, results: Iterable[int]) -> list[Product]:
    """The products that these results depend on, in the order of the program."""
    reached: set[int] = set()
    waiting = list(results)
    while waiting:
        number = waiting.pop()
        if number not in reached:
            reached.add(number)
            waiting += graph.nodes[number].needs
    products = (graph.nodes[number].product for number in sorted(reached))
    return [product for product in products if product is not None]


def add(
    graph: Graph, needs: Sequence[int], loop: int | None = None, product: Product | None = None
) -> int:
    """A new node's number. By default it changes with whatever it is made of."""
    loop = innermost(graph, needs) if loop is None else loop
    if product is not None:
        product = product._replace(times=product.times * graph.loops[loop].iterations)
    graph.nodes.append(Node(list(needs), loop, product))
    return len(graph.nodes) - 1


def innermost(graph: Graph, values: Sequence[int]) -> int:
    """The innermost loop in which one of the values changes; 0 is outside of all."""
    loops = (graph.nodes[value].loop for value in values)
    return max(loops, key=lambda loop: graph.loops[loop].depth, default=0)


def enter(graph: Graph, program: Any, inputs: Sequence[int], use: str = "") -> list[int]:
    """The results of a jaxpr; `use` names the transformations that its caller stands under."""
    jaxpr = getattr(program, "jaxpr", program)
    found = dict(zip(jaxpr.invars, inputs, strict=True))
    for variable, value in zip(jaxpr.constvars, getattr(program, "consts", ()), strict=True):
        found[variable] = constant(graph, value)

    def number(atom: Any) -> int:
        return constant(graph, atom.val) if hasattr(atom, "val") else found[atom]

    for equation in jaxpr.eqns:
        operands = [number(atom) for atom in equation.invars]
        results = perform(graph, equation, operands, f"{use} {equation.source_info.name_stack!r}")
        found.update(zip(equation.outvars, results, strict=True))
    return [number(atom) for atom in jaxpr.outvars]


def constant(graph: Graph, value: Any) -> int:
    """Equal numbers are one value; a random key equals only itself."""
    key: tuple[Any, ...] = ("key", id(value))
    if not jnp.issubdtype(getattr(value, "dtype", np.float32), jax.dtypes.extended):
        array = np.asarray(value)
        key = ("number", array.shape, array.dtype.name, array.tobytes())
    if key not in graph.known:
        graph.known[key] = [add(graph, [])]
    return graph.known[key][0]


def perform(graph: Graph, equation: Any, inputs: list[int], use: str) -> list[int]:
    name, parameters = equation.primitive.name, equation.params
    if name in CONTROL:
        return CONTROL[name](graph, parameters, inputs, use)
    inside = called(equation)
    if inside is not None:
        return enter(graph, inside, inputs, use)
    key = (name, str(parameters), *inputs)
    if key not in graph.known:
        product = as_product(equation, use) if name == "dot_general" else None
        graph.known[key] = [add(graph, inputs, product=product) for _ in equation.outvars]
    return graph.known[key]


def sizes(made: Any) -> tuple[int, int]:
    """Inputs and outputs, of an equation or of a jaxpr."""
    return len(made.invars), len(made.outvars)


def called(equation: Any) -> Any:
    """What a jit, a checkpoint, a custom derivative or the like runs in the equation's place."""
    for parameter in equation.params.values():
        jaxpr = getattr(parameter, "jaxpr", parameter)
        if hasattr(jaxpr, "eqns") and sizes(jaxpr) == sizes(equation):
            return parameter
    return None


def perform_scan(
    graph: Graph, parameters: dict[str, Any], inputs: list[int], use: str
) -> list[int]:
    start, stop = parameters["num_consts"], parameters["num_consts"] + parameters["num_carry"]
    loop = open_loop(graph, inputs, parameters["length"])
    changing = [add(graph, [value], loop) for value in inputs[start:]]
    results = enter(graph, parameters["jaxpr"], [*inputs[:start], *changing], use)
    return close_loop(graph, inputs, changing[: stop - start], results)


def perform_while(
    graph: Graph, parameters: dict[str, Any], inputs: list[int], use: str
) -> list[int]:
    middle = parameters["cond_nconsts"]
    start = middle + parameters["body_nconsts"]
    loop = open_loop(graph, inputs, 1)
    carry = [add(graph, [value], loop) for value in inputs[start:]]
    condition = enter(graph, parameters["cond_jaxpr"], [*inputs[:middle], *carry], use)
    results = enter(graph, parameters["body_jaxpr"], [*inputs[middle:start], *carry], use)
    return close_loop(graph, inputs, carry, [add(graph, [*condition, one]) for one in results])


def open_loop(graph: Graph, inputs: list[int], length: int) -> int:
    around = graph.loops[innermost(graph, inputs)]
    graph.loops.append(Loop(around.depth + 1, around.iterations * length))
    return len(graph.loops) - 1


def close_loop(graph: Graph, inputs: list[int], carry: list[int], results: list[int]) -> list[int]:
    """Each iteration starts from what the last one made, and the outside sees only the end."""
    for before, after in zip(carry, results, strict=False):
        graph.nodes[before].needs.append(after)
    return [add(graph, [one], innermost(graph, inputs)) for one in results]


def perform_cond(
    graph: Graph, parameters: dict[str, Any], inputs: list[int], use: str
) -> list[int]:
    choice, *operands = inputs
    branches = [enter(graph, branch, operands, use) for branch in parameters["branches"]]
    busiest = max(branches, key=lambda results: multiply_adds(needed(graph, results)))
    return [add(graph, [choice, one]) for one in busiest]


CONTROL = {"scan": perform_scan, "while": perform_while, "cond": perform_cond}


def as_product(equation: Any, use: str) -> Product | None:
    """The free axes of an operand are one axis, as are the contracted ones; batch axes, such as an
    ensemble's, are so many products. None if they are too small to time.
    """
    left, right = (atom.aval.shape for atom in equation.invars)
    (contracted, _), (batch, _) = equation.params["dimension_numbers"]
    inner, times = prod(left[axis] for axis in contracted), prod(left[axis] for axis in batch)
    rows, columns = (prod(shape) // max(1, inner * times) for shape in (left, right))
    if rows * inner * columns < SMALLEST:
        return None
    return Product("gradient" if "'transpose'" in use else "forward", rows, inner, columns, times)
