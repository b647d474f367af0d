"""The preparation pipeline, from corpus files to a prepared folder.

    read → clean → exact duplicates → near duplicates → split → tokenizer → shards

Text of synthetic corpora is translated when it is read (`stages/translate.py`).

Each stage runs one task for each chunk or bucket. Its output is the same, byte by byte, with one
process, several processes or a cluster. `stage_key.py` explains how finished stages are recognized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from dragoman.corpus import runner, table
from dragoman.corpus.augmentation import AugmentationSettings
from dragoman.corpus.counts import SplitCounts
from dragoman.corpus.discovery import Corpus, find_corpora
from dragoman.corpus.leakage import Leakage
from dragoman.corpus.results import (
    CleanResult,
    DeduplicationResult,
    EncodeResult,
    PipelineResult,
    ReadResult,
    SplitResult,
    TokenizerResult,
)
from dragoman.corpus.runner import PreparationProgress
from dragoman.corpus.stage_key import FileHashes, part_key, stage_key
from dragoman.corpus.stages.clean import CleanTask
from dragoman.corpus.stages.deduplicate import ExactTask, NearTask, SignTask
from dragoman.corpus.stages.encode import EncodeTask
from dragoman.corpus.stages.publish import publish
from dragoman.corpus.stages.read import ReadTask, chunks_of, counts_of, read_pairs
from dragoman.corpus.stages.split import GENERAL, HELD_OUT, HeldOutTask, SplitSettings, SplitTask
from dragoman.corpus.stages.tokenizer import (
    SIDES,
    TokenizerTask,
    check_tags,
    copy_tokenizer,
    find_tokenizers,
)
from dragoman.corpus.stages.translate import translate_corpora
from dragoman.corpus.task import PreparationTask
from dragoman.data.manifest import Manifest, ManifestHeader
from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.recipe.schema import Recipe
from dragoman.storage import mirror
from dragoman.storage.files import sha256
from dragoman.storage.mirror import fetch, local_path
from dragoman.text.glossary import Glossary

CHUNK_ROWS = (20_000, 1_000_000)
"""Minimum and maximum number of rows of a chunk. Small chunks keep all workers busy until the end.
A cleaned chunk has one batch for each bucket; large chunks keep these batches large enough."""
BUCKET_ROWS = 500_000
"""Approximate number of rows of a bucket."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Prepares the corpora of one recipe."""

    recipe: Recipe
    base_folder: Path
    """The folder that relative paths of the recipe start from."""
    folder: Path
    """The prepared folder."""
    workers: int
    on_progress: Callable[[PreparationProgress], None]
    trust_parts: bool = False
    """Whether models that translate may import parts from outside this package."""

    @property
    def work(self) -> Path:
        """The folder in which the stages keep their results."""
        return self.folder / "work"

    def run(self) -> PipelineResult:
        """Run all stages, one after the other."""
        corpora = find_corpora(self.recipe, self.base_folder, trust_parts=self.trust_parts)
        files = find_tokenizers(self.recipe.tokenizer, self.base_folder, self.folder)
        check_tags(self.recipe, files)
        self._check_glossary()
        read = self._read(corpora)
        clean = self._clean(read)
        deduplication = self._deduplicate(clean, read.synthetic)
        split = self._split(read, clean, deduplication)
        tokenizer = self._copy_tokenizers(files) if files else self._train_tokenizers(split)
        encode = self._encode(split, tokenizer, read.tagged)
        manifest = self._publish(read, split, tokenizer, encode)
        return PipelineResult(
            self.recipe, read, clean, deduplication, split, tokenizer, encode, manifest
        )

    def _check_glossary(self) -> None:
        """Read the glossary before the work begins, so that mistakes in it are reported first."""
        if self.recipe.corpus.glossary:
            try:
                Glossary.load(fetch(local_path(self.recipe.corpus.glossary, self.base_folder)))
            except DataError as error:
                raise RecipeError([Mistake("corpus.glossary", str(error))]) from None

    def _read(self, corpora: tuple[Corpus, ...]) -> ReadResult:
        hashes = FileHashes(self.work / "fingerprints.json")
        parallel = self._read_parallel(
            [corpus for corpus in corpora if not corpus.synthetic], hashes
        )
        synthetic = iter(
            translate_corpora(
                [corpus for corpus in corpora if corpus.synthetic],
                self.work,
                local_path(self.recipe.corpus.synthetic_folder, self.base_folder),
                hashes,
                self._run,
            )
        )
        folders = (next(synthetic if corpus.synthetic else parallel) for corpus in corpora)
        return ReadResult(corpora, tuple(folders))

    def _read_parallel(self, corpora: Sequence[Corpus], hashes: FileHashes) -> Iterator[Path]:
        """Read parallel text; return the folders of its chunks."""
        languages = self.recipe.languages
        size = sum(mirror.size(path) for corpus in corpora for path in corpus.files)
        # The rows of a chunk grow with the square root of the size, so the number of chunks does
        # too. The root is rounded to a power of two: a little more text changes no chunk size.
        root = 1 << (round(size**0.5) - 1).bit_length()
        chunk_rows = min(max(CHUNK_ROWS[0], root), CHUNK_ROWS[1])
        tasks = []
        for corpus in corpora:
            contents = [hashes.hash(path) for path in corpus.files]
            settings = [contents, part_key(corpus.format), languages.model_dump(), chunk_rows]
            tasks.append(
                ReadTask(
                    result=self.work / f"read-{stage_key(settings)}",
                    format=corpus.format,
                    files=corpus.files,
                    source=languages.source,
                    target=languages.target,
                    chunk_rows=chunk_rows,
                )
            )
        hashes.save()
        self._run("read", tasks)
        return iter([task.result for task in tasks])

    def _held_out_hashes(self, read: ReadResult) -> Path | None:
        """Collect the hashes of the validation and test sets that the recipe names."""
        folders = read.held_out_folders()
        if not folders:
            return None
        path = self.work / f"leakage-{stage_key([folder.name for folder in folders])}"
        if not mirror.exists(path):
            Leakage.save(path, (pair for folder in folders for pair in read_pairs(folder)))
        return path

    def _clean(self, read: ReadResult) -> CleanResult:
        languages, settings = self.recipe.languages, self.recipe.corpus
        leakage = self._held_out_hashes(read)
        is_train = [corpus.split == "train" for corpus in read.corpora]
        rows = sum(
            counts_of(folder).rows
            for folder, is_used in zip(read.folders, is_train, strict=True)
            if is_used
        )
        buckets = max(1, -(-rows // BUCKET_ROWS))
        filters = [part_key(choice) for choice in settings.filters]
        leakage_key = leakage.name if leakage else ""
        tasks: list[list[CleanTask]] = [[] for _ in read.corpora]
        for origin, (corpus, folder) in enumerate(zip(read.corpora, read.folders, strict=True)):
            inputs = [folder.name, origin, filters, languages.model_dump(), leakage_key, buckets]
            key = stage_key(inputs)
            for chunk in chunks_of(folder) if is_train[origin] else ():
                task = CleanTask(
                    result=self.work / f"clean-{key}" / chunk.name,
                    chunk=chunk,
                    origin=origin,
                    source=languages.source,
                    target=languages.target,
                    filters=settings.filters,
                    leakage=leakage,
                    is_aligned_by_line=len(corpus.files) > 1,
                    buckets=buckets,
                )
                tasks[origin].append(task)
        self._run("clean", list(chain(*tasks)))
        return CleanResult(tuple(tuple(task.result for task in group) for group in tasks))

    def _deduplicate(self, clean: CleanResult, synthetic: tuple[int, ...]) -> DeduplicationResult:
        mode = self.recipe.corpus.duplicates
        chunks = clean.all_chunks
        buckets = table.batch_count(chunks[0])
        key = stage_key([sorted({path.parent.name for path in chunks}), mode == "keep"])
        exact = [
            ExactTask(
                result=self.work / f"exact-{key}" / f"bucket-{bucket:05}.arrow",
                chunks=chunks,
                bucket=bucket,
                keeps_all=mode == "keep",
            )
            for bucket in range(buckets)
        ]
        self._run("exact duplicates", exact)
        paths = tuple(task.result for task in exact)
        votes = self._vote(key, paths, synthetic) if mode == "near" else ()
        return DeduplicationResult(key, paths, votes)

    def _vote(
        self, key: str, paths: Sequence[Path], synthetic: tuple[int, ...]
    ) -> tuple[Path, ...]:
        """Compare signatures in bands (MinHash); each equal band is a vote against the later row.

        Return the files of votes. The split stage drops rows with enough votes.
        """
        buckets = len(paths)
        sign = [
            SignTask(
                result=self.work / f"sign-{key}" / path.name,
                rows=path,
                buckets=buckets,
                synthetic=synthetic,
            )
            for path in paths
        ]
        self._run("signatures", sign)
        near = [
            NearTask(
                result=self.work / f"near-{key}" / f"bucket-{bucket:05}.arrow",
                signatures=tuple(task.result for task in sign),
                bucket=bucket,
                buckets=buckets,
            )
            for bucket in range(buckets)
        ]
        self._run("near duplicates", near)
        return tuple(task.result for task in near)

    def _split(
        self, read: ReadResult, clean: CleanResult, deduplication: DeduplicationResult
    ) -> SplitResult:
        named = {corpus.split for corpus in read.corpora}
        share = min(0.1, self.recipe.corpus.held_out / max(1, deduplication.count(read.human)))
        shares = [0.0 if split in named else share for split in HELD_OUT]
        settings = SplitSettings(self.recipe.seed, shares[0], shares[1], read.synthetic)
        key = stage_key([deduplication.key, bool(deduplication.votes), asdict(settings)])
        held_out: list[HeldOutTask] = []
        if read.synthetic and any(shares):
            held_out = [
                HeldOutTask(
                    result=self.work / f"held-out-{key}" / path.name, rows=path, settings=settings
                )
                for path in deduplication.buckets
            ]
            self._run("held-out text", held_out)
        tasks = [
            SplitTask(
                result=self.work / f"split-{key}" / path.name,
                rows=path,
                votes=deduplication.votes,
                bucket=bucket,
                settings=settings,
                held_out=tuple(task.result for task in held_out),
            )
            for bucket, path in enumerate(deduplication.buckets)
        ]
        self._run("split", tasks)
        buckets = tuple(task.result for task in tasks)
        if not any(table.read_counts(path, SplitCounts).splits.train for path in buckets):
            raise DataError(clean.why_nothing_is_left(read))
        return SplitResult(buckets)

    def _copy_tokenizers(self, files: tuple[Path, Path]) -> TokenizerResult:
        source, target = (self.work / f"tokenizer-{stage_key([sha256(file)])}" for file in files)
        for file, folder in zip(files, (source, target), strict=True):
            copy_tokenizer(file, folder)
        return TokenizerResult(source, target)

    def _train_tokenizers(self, split: SplitResult) -> TokenizerResult:
        settings, languages = self.recipe.tokenizer, self.recipe.languages
        inputs = [split.key, settings.model_dump(), languages.model_dump()]
        tasks = [
            TokenizerTask(
                result=self.work / f"tokenizer-{stage_key([*inputs, columns])}",
                rows=split.buckets,
                columns=columns,
                sample=settings.sample,
                kind=settings.kind,
                vocabulary_size=settings.vocabulary_size,
                languages=tuple(sorted({languages.source, languages.target})),
            )
            for columns in ([SIDES] if settings.shared else [(side,) for side in SIDES])
        ]
        self._run("tokenizer", tasks)
        return TokenizerResult(tasks[0].result, tasks[-1].result)

    def _encode(
        self, split: SplitResult, tokenizer: TokenizerResult, tagged: tuple[int, ...]
    ) -> EncodeResult:
        settings, max_tokens = self.recipe.corpus, self.recipe.corpus.max_tokens
        augmentation = AugmentationSettings(
            span_share=settings.span_augmentation,
            synthetic_share=settings.synthetic_spans,
            term_share=settings.glossary_augmentation,
            seed=self.recipe.seed,
        )
        named = settings.glossary
        glossary = local_path(named, self.base_folder) if named else None
        names = [tokenizer.source.name, tokenizer.target.name]
        terms = sha256(glossary) if glossary else ""
        key = stage_key([split.key, names, max_tokens, asdict(augmentation), terms, tagged])
        tasks = [
            EncodeTask(
                result=self.work / f"encode-{key}" / f"train-{bucket:05}.arrow",
                rows=path,
                tokenizers=(tokenizer.source, tokenizer.target),
                augmentation=augmentation,
                glossary=glossary,
                tagged=tagged,
                max_tokens=max_tokens,
                threads=max(1, self.workers // len(split.buckets)),
            )
            for bucket, path in enumerate(split.buckets)
        ]
        self._run("shards", tasks)
        return EncodeResult(tuple(task.result for task in tasks))

    def _publish(
        self,
        read: ReadResult,
        split: SplitResult,
        tokenizer: TokenizerResult,
        encode: EncodeResult,
    ) -> Manifest:
        header = ManifestHeader(
            languages=self.recipe.languages,
            tokenizer=self.recipe.tokenizer,
            recipe_sha256=stage_key([self.recipe.model_dump()], 64),
            corpora=tuple(corpus.name for corpus in read.corpora),
            weights={number: corpus.weight for number, corpus in enumerate(read.corpora)},
        )
        held_out = {name: chain(read.pairs(name), split.pairs(name)) for name in HELD_OUT}
        if self.recipe.corpus.general:
            held_out[GENERAL] = chain(read.pairs(GENERAL))
        tokenizers = (tokenizer.source, tokenizer.target)
        return publish(self.folder, encode.shards, tokenizers, held_out, header)

    def _run(self, stage: str, tasks: Sequence[PreparationTask]) -> None:
        runner.run_stage(stage, tasks, self.workers, self.on_progress)
