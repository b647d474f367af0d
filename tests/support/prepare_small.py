"""Prepares a small corpus in many small tasks, as a process that a test can kill.

python prepare_small.py RECIPE WORKERS [CLUSTER]
"""

import json
import sys

from dragoman.corpus import pipeline
from dragoman.workflow import preparation

pipeline.CHUNK_ROWS, pipeline.BUCKET_ROWS = (300, 300), 500

if __name__ == "__main__":
    cluster = sys.argv[3] if len(sys.argv) > 3 else ""
    preparation.prepare(
        sys.argv[1],
        workers=int(sys.argv[2]),
        cluster=cluster,
        on_progress=lambda progress: print(json.dumps(["progress", *progress]), flush=True),
    )
