"""Builds the objective and the data feed of a run."""

from __future__ import annotations

import torch

from dragoman.artifact import Artifact, read_artifact, tokenizer_hashes
from dragoman.data.sampler import Sampler
from dragoman.errors import ArtifactError, Mistake, RecipeError
from dragoman.model.build import build_model
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.initialization import initialize
from dragoman.storage.mirror import local_path
from dragoman.tokenizer.bpe_dropout import BpeDropout
from dragoman.training.adapters import add_adapters
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.device import choose_precision, is_compiled
from dragoman.training.feed import Feed, Retokenizer
from dragoman.training.loss import Objective
from dragoman.training.micro_batches import count_micro_batches
from dragoman.training.parallel import checkpoint_activations, compile_layers, shard
from dragoman.training.run_folder import Run


def run_precision(run: Run) -> str:
    """Return the precision that is stored in the run, or the choice for this machine."""
    facts = run.read_facts()
    if facts is not None and facts.precision is not None:
        return facts.precision
    return choose_precision(run.settings, run.world.device, run.recipe.model.width)


def build_objective(run: Run) -> Objective:
    """Build the model with its first weights, sharded if the recipe says so."""
    source, target = run.tokenizers
    settings, world = run.settings, run.world
    with torch.device("meta"):
        model = build_model(run.recipe.model, source.size, target.size)
        objective = Objective(model, settings.label_smoothing, settings.r_drop)
    if settings.activation_checkpointing:
        checkpoint_activations(model)
    if is_compiled(settings, world.device):
        compile_layers(model)
    if settings.parallel == "fsdp" and world.world_size > 1:
        is_mixed = run_precision(run) == "bfloat16" and world.device.type == "cuda"
        shard(objective, torch.bfloat16 if is_mixed else None)
    objective.to_empty(device=world.device)
    initialize(model, run.recipe.seed)
    has_adapters = run.recipe.adaptation.method == "adapters"
    # Checkpoints have the merged weights and the adapters, not the frozen weights.
    if settings.init_from and (has_adapters or not run.has_checkpoints):
        _load_initial_weights(run, model)
    if has_adapters:
        add_adapters(model, run.recipe.adaptation.rank, run.recipe.seed)
    return objective.train()


def choose_micro_batches(run: Run, objective: Objective) -> int:
    """Return the micro-batches per update: as stored in the run, or as many as necessary."""
    world, facts = run.world, run.read_facts()
    count = None if facts is None else facts.micro_batches
    if count is None:
        needed = count_micro_batches(objective, run.settings, run.longest_pair, world.world_size)
        # The rank with the least memory decides.
        counts = [0.0] * world.world_size
        counts[world.rank] = needed
        count = int(max(world.all_reduce_sum(counts)))
        if world.is_main and facts is not None:
            update = {"micro_batches": count, "precision": run_precision(run)}
            run.write_facts(facts.model_copy(update=update))
    if world.world_size > count:
        raise ArtifactError(
            f"an update of this run has {count} micro-batches, too few for {world.world_size} "
            f"ranks; start it with at most {count} ranks, or start a new run with a smaller "
            "training.micro_batch"
        )
    if run.settings.parallel == "fsdp" and count % world.world_size:
        raise ArtifactError(
            f"with fsdp all ranks need the same number of the {count} micro-batches of an update; "
            f"found {world.world_size} ranks, expected a number that divides {count}"
        )
    return count


def build_feed(run: Run, micro_batches: int, max_positions: int | None) -> Feed:
    """Build the reader of this rank's data, for a model with this number of positions."""
    settings, seed, world = run.settings, run.recipe.seed, run.world
    budget = max(settings.tokens_per_update // micro_batches, 1)
    if budget < run.longest_pair:
        raise RecipeError([_too_small(run, budget, micro_batches)])
    weights = run.prepared.manifest.weights
    sampler = Sampler(run.prepared, seed, budget, settings.temperature, weights)
    retokenizer = None
    if settings.bpe_dropout:
        source, target = run.tokenizers
        vocabularies = source.bpe_vocabulary(), target.bpe_vocabulary()
        if vocabularies[0] is None or vocabularies[1] is None:
            what = "the prepared tokenizer has no merges to drop; prepare again, or set it to 0"
            raise RecipeError([Mistake("training.bpe_dropout", what)])
        rate = settings.bpe_dropout
        dropouts = (
            BpeDropout(vocabularies[0], rate, seed),
            BpeDropout(vocabularies[1], rate, seed),
        )
        max_tokens = run.recipe.corpus.max_tokens
        if max_positions is not None:
            max_tokens = min(max_tokens, max_positions - 1)  # One is for the end token.
        retokenizer = Retokenizer((source, target), dropouts, max_tokens)
    return Feed(sampler, micro_batches, world.rank, world.world_size, world.device, retokenizer)


def _too_small(run: Run, budget: int, micro_batches: int) -> Mistake:
    """Name the setting that would let the longest pair fit into a micro-batch."""
    settings, longest = run.settings, run.longest_pair
    tokens = settings.tokens_per_update
    name, least = "tokens_per_update", longest * micro_batches
    most_micro_batches = tokens // longest
    if settings.micro_batch != "auto" and most_micro_batches >= run.world.world_size:
        name, least = "micro_batch", -(-tokens // most_micro_batches)
    what = (
        f"found {getattr(settings, name)}, expected at least {least}: an update has "
        f"{micro_batches} micro-batches of {budget} tokens, and the longest pair has {longest} "
        "tokens on a side. Or prepare with a smaller corpus.max_tokens"
    )
    return Mistake(f"training.{name}", what)


def _load_initial_weights(run: Run, model: EncoderDecoder) -> None:
    # No part of its recipe is imported: this run's own recipe must name the same parts.
    folder = local_path(run.settings.init_from, run.base_folder)
    artifact = read_artifact(folder, trust_parts=True)
    _check_same_model(run, artifact)
    checkpoints = Checkpoints(artifact.folder, run.world)
    checkpoints.load(artifact.folder, dict(model.named_parameters()))


def _check_same_model(run: Run, artifact: Artifact) -> None:
    """Refuse initial weights of another model or another vocabulary."""
    mistakes = []
    for name in type(run.recipe.model).model_fields:
        theirs, ours = getattr(artifact.recipe.model, name), getattr(run.recipe.model, name)
        if theirs != ours and "dropout" not in name:
            what = f"found {ours}, but the run that training.init_from names has {theirs}"
            mistakes.append(Mistake(f"model.{name}", what))
    ours_hashes = tokenizer_hashes(run.prepared.folder / "tokenizer")
    if tokenizer_hashes(artifact.tokenizer) != ours_hashes:
        origin = run.settings.init_from
        what = (
            "its vocabulary is not that of this corpus; prepare the corpus again with "
            f"tokenizer.init_from={origin}"
        )
        mistakes.append(Mistake("training.init_from", what))
    if mistakes:
        raise RecipeError(mistakes)
