"""Tests that every part computes its equation, forward and backward.

The equations are the loops of `equations.py`. Parts are discovered by listing their folders: a part
without an equation here fails, with a message that says what to add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from dragoman.model.attention import CrossAttention, SelfAttention
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.parts import (
    AttentionKind,
    Heads,
    Position,
    PositionPart,
    PositionVectors,
    Similarity,
)
from dragoman.model.resolve import ResolvedParts, resolve_parts
from dragoman.recipe import parts
from dragoman.recipe.schema import ModelRecipe
from support import equations
from support.contract import plain_attention
from support.equations import Shift, Vector, loose, tight, unshifted
from support.sets import first_quick

# Ours in float32 against loops in float64. Numbers are of the order of one (some gradients reach
# ten), float32 keeps seven digits, and sums are short: rounding leaves 2e-6 (measured). A wrong
# equation is off by 1e-3 and more.
TOLERANCE = 1e-5

Options = Mapping[str, Any]


# The equation of each part. An entry has the options to try, and how to get the equation from the
# options and from the weights of the part, which are float64 copies by the part's own names.


class Equation(NamedTuple):
    options: list[dict[str, Any]]
    build: Callable[[Options, Mapping[str, Tensor]], Any]


SIMILARITIES = {
    "dot": Equation([{}], lambda options, weights: equations.dot),
    "scaled_dot": Equation([{}], lambda options, weights: equations.scaled_dot),
    "cosine": Equation(
        [{}, {"scale": 7.5}],
        lambda options, weights: partial(equations.cosine, scale=options.get("scale", 1.0)),
    ),
    "additive": Equation(
        [{}, {"hidden": 3}],
        lambda options, weights: partial(
            equations.additive,
            for_query=loose(weights["query.weight"]),
            for_key=loose(weights["key.weight"]),
            score=loose(weights["score.weight"])[0],
        ),
    ),
    "concat": Equation(
        [{}, {"hidden": 3}],
        lambda options, weights: partial(
            equations.concat,
            for_pair=loose(weights["pair.weight"]),
            score=loose(weights["score.weight"])[0],
        ),
    ),
}
"""A function of a query and a key."""


class AttentionKindEquation(NamedTuple):
    weights: Callable[[Vector, list[bool]], Vector]
    window: int | None = None


ATTENTION_KINDS = {
    "soft": Equation([{}], lambda options, weights: AttentionKindEquation(equations.soft)),
    "hard": Equation(
        [{}], lambda options, weights: AttentionKindEquation(equations.hard_straight_through)
    ),
    "local": Equation(
        [{"window": 0}, {"window": 1}, {"window": 3}],
        lambda options, weights: AttentionKindEquation(equations.soft, options["window"]),
    ),
}
"""A function of the scores of one query and what it sees, and the window of what it sees."""


class HeadsEquation(NamedTuple):
    queries: Callable[[Vector], list[Vector]]
    keys: Callable[[Vector], list[Vector]]
    values: Callable[[Vector], list[Vector]]
    join: Callable[[list[Vector]], Vector]


def _learned_heads(
    split: Callable[..., list[Vector]], options: Options, weights: Mapping[str, Tensor]
) -> HeadsEquation:
    count = options["count"]

    def of(name: str) -> Callable[[Vector], list[Vector]]:
        # The matrices of all heads are stacked into one matrix.
        bias = weights[f"{name}.bias"].view(count, -1)
        matrix = weights[f"{name}.weight"].view(*bias.shape, -1)
        return partial(split, matrices=loose(matrix), biases=loose(bias))

    matrix, bias = loose(weights["output.weight"]), loose(weights["output.bias"])
    join = partial(equations.joined, matrix=matrix, bias=bias)
    return HeadsEquation(of("query"), of("key"), of("value"), join)


def _bare_heads(options: Options, weights: Mapping[str, Tensor]) -> HeadsEquation:
    split = partial(equations.bare, heads=options["count"])
    return HeadsEquation(split, split, split, equations.concatenation)


# `count` comes from the model, not from the recipe.
COUNTS = [{"count": 2}, {"count": 3}]
HEADS = {
    "bare": Equation(COUNTS, _bare_heads),
    "narrow": Equation(COUNTS, partial(_learned_heads, equations.narrow)),
    "standard": Equation(COUNTS, partial(_learned_heads, equations.standard)),
    "wide": Equation(COUNTS, partial(_learned_heads, equations.wide)),
}
"""How a vector is projected to the heads, and back."""


VECTORS = {
    "naive": Equation(
        [{}, {"scale": 0.125}],
        lambda options, weights: partial(equations.naive, scale=options.get("scale", 1.0)),
    ),
    "sinusoidal": Equation(
        [
            {},
            {"layout": "interleaved", "base": 100.0},
            {"layout": "cosine_first"},
            {"layout": "halves"},
        ],
        lambda options, weights: partial(
            equations.sinusoidal,
            base=options.get("base", 10000.0),
            layout=options.get("layout", "interleaved"),
        ),
    ),
    "learned": Equation(
        [{"maximum": 12}],
        lambda options, weights: (
            lambda place, size: equations.learned(place, loose(weights["table.weight"]))
        ),
    ),
}
"""A function of the position and the size."""


class Hooks(NamedTuple):
    turn: Callable[[Vector, int], Vector] = lambda x, place: x
    """A query or a key, and its position."""
    turn_value: Callable[[Vector, int], Vector] = lambda x, place: x
    shift_key: Shift = unshifted
    shift_value: Shift = unshifted


def _shaw(options: Options, weights: Mapping[str, Tensor]) -> Hooks:
    for_keys, for_values = loose(weights["keys.weight"]), loose(weights["values.weight"])
    return Hooks(
        shift_key=partial(equations.shaw, table=for_keys),
        shift_value=partial(equations.shaw, table=for_values),
    )


HOOKS = {
    "none": Equation([{}], lambda options, weights: Hooks()),
    "rotary": Equation(
        [{}, {"base": 100.0}],
        lambda options, weights: Hooks(
            turn=partial(equations.rotary, base=options.get("base", 10000.0))
        ),
    ),
    "shaw": Equation([{"distance": 2}, {"distance": 20}], _shaw),
}
"""What a position does inside attention."""

KINDS: dict[str, tuple[type, dict[str, Equation]]] = {
    "head_kind": (Heads, HEADS),
    "similarity": (Similarity, SIMILARITIES),
    "attention_kind": (AttentionKind, ATTENTION_KINDS),
    "position": (PositionPart, VECTORS | HOOKS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_has_an_equation(kind: str) -> None:
    _, known = KINDS[kind]
    names = parts.names(f"model.{kind}")
    assert names, f"the folder of model.{kind} seems empty"
    missing = set(names) - set(known)
    assert not missing, (
        f"no equation for {kind} {sorted(missing)}: write it as loops in tests/parity/equations.py "
        "and name it in the tables of tests/parity/test_equations.py"
    )
    assert not set(known) - set(names), "an equation whose part is gone"


def cases(known: Mapping[str, Equation]) -> list[Any]:
    """Each part with each of the options to try."""
    return [
        pytest.param(name, options, id=f"{name}({','.join(f'{k}={options[k]}' for k in options)})")
        for name, equation in known.items()
        for options in equation.options
    ]


# Our results and those of the equations.


def build(kind: str, name: str, options: Options, *given: Any) -> Any:
    """Build a part as a recipe does, and draw weights that are nowhere zero."""
    choice = parts.Choice.model_validate({"name": name, **options})
    chosen = parts.choose(f"model.{kind}", choice, kind, KINDS[kind][0])
    return randomize(chosen(*given))


def randomize(module: nn.Module) -> Any:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def resolve(**settings: Any) -> ResolvedParts:
    return resolve_parts(ModelRecipe.model_validate({"position": "none"} | settings))


def some(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


class Leaves(NamedTuple):
    """What gradients are taken of: the same names and values in float32 and in float64."""

    ours: dict[str, Tensor]
    theirs: dict[str, Tensor]

    def weights(self, prefix: str = "") -> dict[str, Tensor]:
        """Their copies of the parameters of one module."""
        return {
            name.removeprefix(prefix): weight
            for name, weight in self.theirs.items()
            if name.startswith(prefix)
        }


def leaves_of(*modules: nn.Module, **inputs: Tensor) -> Leaves:
    ours = dict(inputs)
    for module in modules:
        ours |= dict(module.named_parameters())
    return Leaves(
        ours, {name: weight.detach().double().requires_grad_() for name, weight in ours.items()}
    )


def check(ours: Tensor, theirs: Tensor, leaves: Leaves, tolerance: float = TOLERANCE) -> None:
    """The same values, and the same gradients of a random sum of them."""
    assert torch.is_floating_point(ours)
    assert theirs.dtype == torch.float64
    torch.testing.assert_close(ours.double(), theirs, atol=tolerance, rtol=0.0)
    if leaves.ours:
        check_gradients(ours, theirs, leaves)


def check_gradients(ours: Tensor, theirs: Tensor, leaves: Leaves) -> None:
    direction = 0.25 * torch.randn_like(ours)  # Sums over many places stay of the order of one.

    def gradients(output: Tensor, of: dict[str, Tensor]) -> tuple[Tensor, ...]:
        if not output.requires_grad:  # Nothing is learned and nothing went in.
            return tuple(torch.zeros_like(weight) for weight in of.values())
        return torch.autograd.grad(
            output,
            list(of.values()),
            direction.to(output.dtype),
            allow_unused=True,
            materialize_grads=True,
            retain_graph=True,
        )

    for name, gradient, expected in zip(
        leaves.ours,
        gradients(ours, leaves.ours),
        gradients(theirs, leaves.theirs),
        strict=True,
    ):
        torch.testing.assert_close(
            gradient.double(),
            expected,
            atol=TOLERANCE,
            rtol=0.0,
            msg=lambda text, name=name: f"gradient of {name}: {text}",
        )


def flat(*tensors: Tensor) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


# What is visible, once by our masks and once by the definition.


class Situation(NamedTuple):
    """How many keys of each sentence are real, and the positions of the queries."""

    lengths: tuple[int, ...]
    queries: int
    start: int = 0
    is_causal: bool = False

    @property
    def keys(self) -> int:
        return max(self.lengths)

    def mask(self) -> Tensor:
        if not self.is_causal:
            return self._padding
        causal = causal_mask(self.start, self.queries, torch.device("cpu"))
        return causal if set(self.lengths) == {self.keys} else self._padding & causal

    @property
    def _padding(self) -> Tensor:
        return padding_mask(torch.arange(self.keys) < torch.tensor(self.lengths).unsqueeze(1))

    def visible(self, window: int | None = None) -> list[list[list[bool]]]:
        rows = []
        for real in self.lengths:
            rows.append([])
            for place in range(self.start, self.start + self.queries):
                seen = [
                    key < real and (key <= place or not self.is_causal) for key in range(self.keys)
                ]
                if window is not None:
                    seen = equations.in_window(place, seen, real, window)
                rows[-1].append(seen)
        return rows


SITUATIONS = {
    "padded source": Situation((5, 3), queries=5),
    "target": Situation((5, 5), queries=5, is_causal=True),
    "padded target": Situation((5, 2), queries=5, is_causal=True),
    "target from a cache": Situation((5, 5), queries=2, start=3, is_causal=True),
    "short source, long target": Situation((4, 2), queries=6),
    "long source, short target": Situation((7, 4), queries=3),
    "source, target from a cache": Situation((6, 3), queries=2, start=4),
}


# Similarities.


@pytest.mark.parametrize(("name", "options"), cases(SIMILARITIES))
def test_similarity(name: str, options: Options) -> None:
    similarity = build("similarity", name, options, 4)
    queries, keys = some(2, 2, 3, 4), some(2, 2, 5, 4)
    leaves = leaves_of(similarity, queries=queries, keys=keys)
    equation = SIMILARITIES[name].build(options, leaves.theirs)
    scores = tight(
        equations.compare(equation, loose(leaves.theirs["queries"]), loose(leaves.theirs["keys"]))
    )
    check(similarity(queries, keys), scores, leaves)

    product = similarity.as_dot_product(queries, keys)
    if product is not None:  # The same scores once more, as a fused kernel will see them.
        check(product.scale * product.queries @ product.keys.mT, scores, leaves)


def test_concat_is_additive_with_one_matrix() -> None:
    concat = build("similarity", "concat", {"hidden": 3}, 4)
    additive = build("similarity", "additive", {"hidden": 3}, 4)
    with torch.no_grad():
        additive.query.weight.copy_(concat.pair.weight[:, :4])
        additive.key.weight.copy_(concat.pair.weight[:, 4:])
        additive.score.weight.copy_(concat.score.weight)
    queries, keys = some(2, 2, 3, 4), some(2, 2, 5, 4)
    torch.testing.assert_close(
        concat(queries, keys), additive(queries, keys), atol=TOLERANCE, rtol=0.0
    )


# Attention kinds.


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize(("name", "options"), cases(ATTENTION_KINDS))
def test_attention_kind(name: str, options: Options, situation: Situation) -> None:
    attention_kind = build("attention_kind", name, options)
    scores = some(2, 2, situation.queries, situation.keys)
    leaves = leaves_of(attention_kind, scores=scores)
    equation = ATTENTION_KINDS[name].build(options, leaves.theirs)
    expected = tight(
        equations.weigh(
            equation.weights, loose(leaves.theirs["scores"]), situation.visible(equation.window)
        )
    )
    mask = attention_kind.restrict_mask(situation.mask(), situation.start, situation.queries)
    ours = attention_kind(scores, mask)
    # A choice is exact.
    check(ours, expected, leaves, tolerance=0.0 if name == "hard" else TOLERANCE)
    hidden = torch.tensor(situation.visible(equation.window)).logical_not().unsqueeze(1)
    assert ours.masked_select(hidden).eq(0).all(), "what is hidden weighs exactly nothing"


def test_the_gradient_of_hard_is_that_of_soft() -> None:
    situation = SITUATIONS["padded target"]
    scores = some(2, 2, situation.queries, situation.keys)
    leaves = leaves_of(scores=scores)
    soft = tight(
        equations.weigh(equations.soft, loose(leaves.theirs["scores"]), situation.visible())
    )
    check_gradients(build("attention_kind", "hard", {})(scores, situation.mask()), soft, leaves)


def test_hard_selects_the_first_of_equal_scores() -> None:
    scores = torch.tensor([[[[2.0, 3.0, 3.0, 9.0]]]])
    mask = torch.tensor([[[[True, True, True, False]]]])
    weights = build("attention_kind", "hard", {})(scores, mask)
    assert weights.flatten().tolist() == [0, 1, 0, 0]
    expected = equations.hard(loose(scores.double().flatten()), mask.flatten().tolist())
    assert expected == [0, 1, 0, 0]


# Heads.


@pytest.mark.parametrize(("name", "options"), cases(HEADS))
def test_heads(name: str, options: Options) -> None:
    width, count = 6, options["count"]
    heads = build("head_kind", name, {}, width, count)
    x, memory = some(2, 3, width), some(2, 4, width)
    mixed = some(2, count, 3, heads.head_size(width, count))
    leaves = leaves_of(heads, x=x, memory=memory, mixed=mixed)
    equation = HEADS[name].build(options, leaves.theirs)
    for ours, split, given in (
        (heads.queries(x), equation.queries, "x"),
        (heads.keys_values(memory)[0], equation.keys, "memory"),
        (heads.keys_values(memory)[1], equation.values, "memory"),
    ):
        check(ours, tight(equations.over_sentences(split, loose(leaves.theirs[given]))), leaves)
    joined = equations.over_positions(equation.join, loose(leaves.theirs["mixed"]))
    check(heads.join(mixed), tight(joined), leaves)


# Positions.


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("size", [6, 5])
@pytest.mark.parametrize(("name", "options"), cases(VECTORS))
def test_position_vectors(name: str, options: Options, size: int, start: int) -> None:
    vectors = build("position", name, options, size)
    assert isinstance(vectors, PositionVectors)
    leaves = leaves_of(vectors)
    equation = VECTORS[name].build(options, leaves.theirs)
    expected = tight([equation(place, size) for place in range(start, start + 4)])
    ours = vectors(start, 4, torch.zeros(()))
    assert ours.dtype == torch.float32
    check(ours, expected, leaves)


@pytest.mark.parametrize("options", VECTORS["sinusoidal"].options)
def test_sinusoids_are_exact_at_distant_positions(options: Options) -> None:
    ours = build("position", "sinusoidal", options, 6)(100_000, 3, torch.zeros(()))
    equation = VECTORS["sinusoidal"].build(options, {})
    expected = tight([equation(place, 6) for place in range(100_000, 100_003)])
    # One rounding to float32; the sine of an angle in float32 would be off by 1e-3 out there.
    torch.testing.assert_close(ours.double(), expected, atol=1e-7, rtol=0.0)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("entry", ["added", "concatenated", "projected"])
@pytest.mark.parametrize(("name", "options"), cases(VECTORS))
def test_entry(name: str, options: Options, entry: str, start: int) -> None:
    width, features = 8, 3
    resolved = resolve(
        width=width,
        heads=2,
        position={"name": name, **options},
        position_entry=entry,
        position_features=features,
        position_depth="every_layer",
    )
    position = randomize(resolved.build_position(1))
    words = width - features if entry == "concatenated" else width
    x, above = some(2, 3, words), some(2, 3, width)
    queries, keys, values = (some(2, 2, 3, 4) for _ in range(3))
    leaves = leaves_of(position, x=x, above=above, queries=queries, keys=keys, values=values)
    theirs = {name: loose(leaves.theirs[name]) for name in leaves.ours}
    equation = VECTORS[name].build(options, leaves.weights("vectors."))

    def enter(vector: Vector, place: int) -> Vector:
        if entry == "added":
            return equations.added(vector, equation(place, width))
        if entry == "concatenated":
            return equations.concatenated(vector, equation(place, features), words)
        return vector

    for given, ours in (("x", x), ("above", above)):
        expected = [
            [enter(vector, start + index) for index, vector in enumerate(sentence)]
            for sentence in theirs[given]
        ]
        check(position.apply_to_input(ours, start), tight(expected), leaves)

    def place(vector: Vector, where: int) -> Vector:
        return equations.added(vector, equation(where, 4)) if entry == "projected" else vector

    expected = [
        apply_to_all(theirs[given], place, start) for given in ("queries", "keys", "values")
    ]
    ours = position.apply_to_heads(queries, keys, values, start)
    check(flat(*ours), flat(*map(tight, expected)), leaves)


def apply_to_all(heads: Any, turn: Callable[[Vector, int], Vector], start: int) -> Any:
    """Apply the position to every vector."""
    return [
        [
            [turn(vector, start + index) for index, vector in enumerate(vectors)]
            for vectors in sentence
        ]
        for sentence in heads
    ]


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize(("name", "options"), cases(HOOKS))
def test_apply_to_heads_and_mix(name: str, options: Options, start: int) -> None:
    position = build("position", name, options, 4)
    assert isinstance(position, Position)
    queries, keys, values = (some(2, 2, 3, 4) for _ in range(3))
    all_values, weights = some(2, 2, start + 3, 4), some(2, 2, 3, start + 3)
    leaves = leaves_of(
        position,
        **{"queries": queries, "keys": keys, "values": values},
        **{"all_values": all_values, "given_weights": weights},
    )
    theirs = {name: loose(leaves.theirs[name]) for name in leaves.ours}
    hooks = HOOKS[name].build(options, leaves.theirs)

    x = values[0]
    assert position.apply_to_input(x, start).equal(x), "only vectors enter between layers"

    expected = flat(
        tight(apply_to_all(theirs["queries"], hooks.turn, start)),
        tight(apply_to_all(theirs["keys"], hooks.turn, start)),
        tight(apply_to_all(theirs["values"], hooks.turn_value, start)),
    )
    check(flat(*position.apply_to_heads(queries, keys, values, start)), expected, leaves)

    mixed = equations.mix(theirs["given_weights"], theirs["all_values"], start, hooks.shift_value)
    check(position.mix(weights, all_values, start), tight(mixed), leaves)


@pytest.mark.parametrize("start", first_quick([3, 0]))
@pytest.mark.parametrize(("similarity_name", "similarity_options"), cases(SIMILARITIES))
@pytest.mark.parametrize(("name", "options"), cases(HOOKS))
def test_compare(
    name: str,
    options: Options,
    similarity_name: str,
    similarity_options: Options,
    start: int,
) -> None:
    position = build("position", name, options, 4)
    similarity = build("similarity", similarity_name, similarity_options, 4)
    queries, keys = some(2, 2, 3, 4), some(2, 2, start + 3, 4)
    both = nn.ModuleDict({"position": position, "similarity": similarity})
    leaves = leaves_of(both, queries=queries, keys=keys)
    scores = equations.compare(
        SIMILARITIES[similarity_name].build(similarity_options, leaves.weights("similarity.")),
        loose(leaves.theirs["queries"]),
        loose(leaves.theirs["keys"]),
        start,
        HOOKS[name].build(options, leaves.weights("position.")).shift_key,
    )
    check(position.compare(similarity, queries, keys, start), tight(scores), leaves)


# Complete attention, made of several equations.


class Parts(NamedTuple):
    heads: str
    similarity: dict[str, Any]
    attention_kind: dict[str, Any]
    position: dict[str, Any]
    is_projected: bool = False

    def resolved(self) -> ResolvedParts:
        return resolve(
            width=4,
            heads=2,
            head_kind=self.heads,
            similarity=self.similarity,
            attention_kind=self.attention_kind,
            position=self.position,
            position_entry="projected" if self.is_projected else "added",
        )

    def heads_equation(self, weights: Mapping[str, Tensor]) -> HeadsEquation:
        return HEADS[self.heads].build({"count": 2}, weights)

    def similarity_equation(self, weights: Mapping[str, Tensor]) -> Callable[..., Tensor]:
        return SIMILARITIES[self.similarity["name"]].build(self.similarity, weights)

    def attention_kind_equation(self) -> AttentionKindEquation:
        return ATTENTION_KINDS[self.attention_kind["name"]].build(self.attention_kind, {})

    def hooks(self, weights: Mapping[str, Tensor]) -> Hooks:
        name = self.position["name"]
        if not self.is_projected:
            return HOOKS[name].build(self.position, weights)
        vector = VECTORS[name].build(self.position, weights)

        def add(x: Vector, place: int) -> Vector:
            return equations.added(x, vector(place, len(x)))

        return Hooks(turn=add, turn_value=add)


COMBINATIONS = {
    "first lecture": Parts("bare", {"name": "dot"}, {"name": "soft"}, {"name": "none"}),
    "narrow": Parts(
        "narrow", {"name": "cosine", "scale": 3.0}, {"name": "soft"}, {"name": "rotary"}
    ),
    "wide": Parts(
        "wide",
        {"name": "additive", "hidden": 3},
        {"name": "local", "window": 1},
        {"name": "shaw", "distance": 2},
    ),
    "hard": Parts(
        "standard",
        {"name": "scaled_dot"},
        {"name": "hard"},
        {"name": "sinusoidal"},
        is_projected=True,
    ),
    "paper, relative": Parts(
        "standard", {"name": "scaled_dot"}, {"name": "soft"}, {"name": "shaw", "distance": 1}
    ),
    "local": Parts(
        "standard",
        {"name": "concat"},
        {"name": "local", "window": 2},
        {"name": "learned", "maximum": 9},
        is_projected=True,
    ),
}


@pytest.mark.parametrize("is_causal", [False, True], ids=["encoder", "decoder"])
@pytest.mark.parametrize("parts", COMBINATIONS.values(), ids=COMBINATIONS)
def test_self_attention(parts: Parts, is_causal: bool) -> None:
    resolved = parts.resolved()
    attention = randomize(SelfAttention(resolved, "encoder"))
    position = randomize(resolved.build_position(0))
    both = nn.ModuleDict({"self_attention": attention, "position": position})
    x = some(2, 5, 4)
    leaves = leaves_of(both, x=x)
    situation = Situation((5, 5) if is_causal else (5, 3), queries=5, is_causal=is_causal)

    heads = parts.heads_equation(leaves.weights("self_attention.heads."))
    hooks = parts.hooks(leaves.weights("position.vectors." if parts.is_projected else "position."))
    given = loose(leaves.theirs["x"])
    expected = attend(
        parts,
        leaves.weights("self_attention.attention.similarity."),
        apply_to_all(equations.over_sentences(heads.queries, given), hooks.turn, 0),
        apply_to_all(equations.over_sentences(heads.keys, given), hooks.turn, 0),
        apply_to_all(equations.over_sentences(heads.values, given), hooks.turn_value, 0),
        situation,
        hooks,
    )
    expected = tight(equations.over_positions(heads.join, expected))

    for is_plain in (False, True):
        with plain_attention(is_plain):
            ours, _ = attention(x, situation.mask(), position)
        check(ours, expected, leaves)
    if is_causal:  # The same in three steps with a cache.
        steps, past = [], None
        for start, stop in ((0, 2), (2, 4), (4, 5)):
            mask = causal_mask(start, stop - start, x.device)
            step, past = attention(x[:, start:stop], mask, position, past)
            steps.append(step)
        check(torch.cat(steps, dim=1), expected, leaves)


def attend(
    parts: Parts,
    weights: Mapping[str, Tensor],
    queries: Any,
    keys: Any,
    values: Any,
    situation: Situation,
    hooks: Hooks,
) -> Any:
    """Compare, weigh, mix."""
    attention_kind = parts.attention_kind_equation()
    scores = equations.compare(
        parts.similarity_equation(weights), queries, keys, situation.start, hooks.shift_key
    )
    weighed = equations.weigh(
        attention_kind.weights, scores, situation.visible(attention_kind.window)
    )
    return equations.mix(weighed, values, situation.start, hooks.shift_value)


@pytest.mark.parametrize(
    "situation", [Situation((6, 3), queries=4), Situation((5, 2), queries=2, start=3)]
)
@pytest.mark.parametrize("parts", COMBINATIONS.values(), ids=COMBINATIONS)
def test_cross_attention(parts: Parts, situation: Situation) -> None:
    attention = randomize(CrossAttention(parts.resolved()))
    x, memory = some(2, situation.queries, 4), some(2, situation.keys, 4)
    leaves = leaves_of(attention, x=x, memory=memory)

    heads = parts.heads_equation(leaves.weights("heads."))
    source = loose(leaves.theirs["memory"])
    # Positions of the target and of the source are not comparable, so there are no hooks.
    expected = attend(
        parts,
        leaves.weights("attention.similarity."),
        equations.over_sentences(heads.queries, loose(leaves.theirs["x"])),
        equations.over_sentences(heads.keys, source),
        equations.over_sentences(heads.values, source),
        situation,
        Hooks(),
    )
    expected = tight(equations.over_positions(heads.join, expected))

    for is_plain in (False, True):
        with plain_attention(is_plain):
            ours, _ = attention(x, memory, situation.mask(), situation.start)
        check(ours, expected, leaves)
