CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    characters_per_month INTEGER NOT NULL,
    requests_per_minute INTEGER NOT NULL,
    created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE usage (
    key TEXT NOT NULL REFERENCES keys(id) ON DELETE CASCADE,
    month TEXT NOT NULL,
    characters INTEGER NOT NULL,
    PRIMARY KEY (key, month)
) WITHOUT ROWID;
CREATE TABLE glossaries (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    created REAL NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX glossaries_by_owner ON glossaries (owner);
CREATE TABLE dictionaries (
    id INTEGER PRIMARY KEY,
    glossary TEXT NOT NULL REFERENCES glossaries(id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    UNIQUE (glossary, source, target)
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    dictionary INTEGER NOT NULL REFERENCES dictionaries(id) ON DELETE CASCADE,
    term TEXT NOT NULL,
    translation TEXT NOT NULL,
    UNIQUE (dictionary, term)
);
CREATE TABLE documents (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    status TEXT NOT NULL,
    units_done INTEGER NOT NULL DEFAULT 0,
    units INTEGER NOT NULL DEFAULT 0,
    characters INTEGER NOT NULL DEFAULT 0,
    flagged INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL,
    updated REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX documents_by_owner ON documents (owner);
CREATE TABLE suggestions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    source_text TEXT NOT NULL,
    machine_text TEXT NOT NULL,
    suggestion TEXT NOT NULL,
    model TEXT NOT NULL,
    created REAL NOT NULL
);
