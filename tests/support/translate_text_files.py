"""Translates files on a cluster, as a process that tells its progress.

python translate_text_files.py PART_BYTES CLUSTER WORKERS MODEL INPUT OUTPUT
"""

import json
import sys

from dragoman.workflow import translation
from dragoman.workflow.text_files import TextFilesRequest, translate_text_files

if __name__ == "__main__":
    part_bytes, cluster, workers, model, texts, output = sys.argv[1:]
    translation.PART_BYTES = int(part_bytes)
    translate_text_files(
        TextFilesRequest((model,), (texts,), output, workers=int(workers), cluster=cluster),
        lambda progress: print(json.dumps(["progress", *progress]), flush=True),
    )
