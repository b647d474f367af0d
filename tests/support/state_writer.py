"""A process that uses the state of a server, for tests.

`charge FOLDER KEY CHARACTERS`: charge until the quota refuses; print how often it did not.
`write FOLDER`: write keys, glossaries, documents and suggestions for ever; print each one after it
was stored.
"""

import sys
import time
from itertools import count
from pathlib import Path

from dragoman.serving.state import State
from dragoman.serving.stores.glossaries import Dictionary


def charge(folder, key_id, characters):
    while not (folder / "go").exists():
        time.sleep(0.001)
    state = State(folder)  # All processes open, or even create, the file at the same time.
    accepted = 0
    while state.charge(key_id, characters):
        accepted += 1
    print(accepted)
    state.close()


def write(folder):
    state = State(folder)
    for number in count():
        info = state.add_glossary("", str(number), [Dictionary("en", "de", (("a", str(number)),))])
        print("glossary", info.id, number, flush=True)
        state.change_glossary("", info.id, f"new {number}")
        print("renamed", info.id, number, flush=True)
        print("key", state.add_key(str(number)), number, flush=True)
        job = state.add_document("", "a.txt", "de")
        print("document", f"{job.id}/{job.secret}", number, flush=True)
        suggestion = state.add_suggestion(
            "",
            source="en",
            target="de",
            source_text="a",
            machine_text="",
            suggestion=str(number),
            model="",
        )
        print("suggestion", suggestion, number, flush=True)


if __name__ == "__main__":
    command, folder, *arguments = sys.argv[1:]
    if command == "charge":
        charge(Path(folder), arguments[0], int(arguments[1]))
    else:
        write(Path(folder))
