"""Translates files on a cluster, as a process that tells its progress.

python translate_text_files.py CLUSTER WORKERS MODEL INPUT OUTPUT
"""

import json
import sys

from dragoman.workflow.text_files import TextFilesRequest, translate_text_files

if __name__ == "__main__":
    cluster, workers, model, texts, output = sys.argv[1:]
    translate_text_files(
        TextFilesRequest((model,), (texts,), output, workers=int(workers), cluster=cluster),
        lambda progress: print(json.dumps(["progress", *progress]), flush=True),
    )
