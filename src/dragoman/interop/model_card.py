"""The model card (README.md) of an export: languages, size, quality, license and usage."""

from __future__ import annotations

import json
from typing import Literal

from dragoman.artifact import CARD, Artifact

_USAGE = {
    "ctranslate2": """\
```
dragoman translate FOLDER < input.txt > output.txt
```

In Python:

```python
from dragoman import Translator

with Translator.load("FOLDER") as translator:
    print(translator.translate("{sentence}").text)
```

FOLDER is the folder of this file. Only `pip install 'dragoman[infer]'` is needed, not PyTorch.
""",
    "huggingface": """\
```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
batch = tokenizer(["{sentence}"], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

FOLDER is the folder of this file.
""",
}


def model_card(
    artifact: Artifact,
    to: Literal["ctranslate2", "huggingface"],
    *,
    parameters: int,
    quantization: str = "float32",
) -> str:
    """Write the model card of an export as Markdown with the metadata of Hugging Face."""
    languages = artifact.recipe.languages
    source, target = languages.source or "unknown", languages.target or "unknown"
    codes = [code for code in (languages.source, languages.target) if code]
    # YAML 1.1 reads the code of Norwegian as False.
    listed = [f'"{code}"' if code == "no" else code for code in codes]
    metadata = [
        "---",
        f"language: [{', '.join(listed)}]",
        f"library_name: {'transformers' if to == 'huggingface' else 'ctranslate2'}",
        "pipeline_tag: translation",
        "tags: [translation, dragoman]",
        "license: other  # Replace with your license.",
        "---",
    ]
    model = artifact.recipe.model
    facts = [
        f"- Languages: {source} to {target}",
        f"- Parameters: {parameters / 1e6:.1f} million ({quantization})",
        f"- Architecture: {model.architecture}, {model.encoder_layers} encoder and "
        f"{model.decoder_layers} decoder layers, width {model.width}",
        f"- Quality: {_quality(artifact)}",
        "- License: not stated. Choose one that the training text permits.",
        f"- Made with Dragoman; SHA-256 of the weights: {artifact.model_hash}",
    ]
    usage = _USAGE[to].replace("{sentence}", "a sentence")
    title = f"# Translation model, {source} to {target}"
    return "\n".join([*metadata, "", title, "", *facts, "", "## Usage", "", usage])


def _quality(artifact: Artifact) -> str:
    """Read the validation score from the card of the run."""
    try:
        card = json.loads((artifact.folder / CARD).read_text(encoding="utf-8"))
        metric, value = card["validation"]["metric"], float(card["validation"]["value"])
    except (OSError, ValueError, KeyError, TypeError):
        return "not measured"
    name = "BLEU" if metric == "bleu" else "loss"
    return f"{name} {value:.2f} on the validation set (best checkpoint)"
