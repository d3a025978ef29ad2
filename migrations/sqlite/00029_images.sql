-- +goose Up
-- id: the SHA-256 of jpeg in hexadecimal digits. A row never changes.
CREATE TABLE images (
    id         TEXT     NOT NULL PRIMARY KEY,
    width      INTEGER  NOT NULL,
    height     INTEGER  NOT NULL,
    jpeg       BLOB     NOT NULL,
    created_at DATETIME NOT NULL
);

-- +goose Down
DROP TABLE images;
