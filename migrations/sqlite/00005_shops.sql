-- +goose Up
-- score is in tenths (47 = 4.7), avg_price in cents.
CREATE TABLE shops (
    id         INTEGER  PRIMARY KEY AUTOINCREMENT,
    name       TEXT     NOT NULL,
    type_id    INTEGER  NOT NULL,
    images     TEXT     NOT NULL DEFAULT '',
    area       TEXT     NOT NULL DEFAULT '',
    address    TEXT     NOT NULL DEFAULT '',
    x          REAL     NOT NULL DEFAULT 0,
    y          REAL     NOT NULL DEFAULT 0,
    avg_price  INTEGER  NOT NULL DEFAULT 0,
    sold       INTEGER  NOT NULL DEFAULT 0,
    comments   INTEGER  NOT NULL DEFAULT 0,
    score      INTEGER  NOT NULL DEFAULT 0,
    open_hours TEXT     NOT NULL DEFAULT '',
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL
);
CREATE INDEX idx_shops_type ON shops (type_id);

-- +goose Down
DROP TABLE shops;
