-- +goose Up
CREATE TABLE users (
    id         INTEGER  PRIMARY KEY AUTOINCREMENT,
    phone      TEXT     NOT NULL CONSTRAINT uk_phone UNIQUE,
    nick_name  TEXT     NOT NULL,
    icon       TEXT     NOT NULL DEFAULT '',
    role       TEXT     NOT NULL DEFAULT 'buyer',
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL
);

-- +goose Down
DROP TABLE users;
