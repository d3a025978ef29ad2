-- +goose Up
-- id: the SHA-256 of jpeg in hexadecimal digits. A row never changes.
CREATE TABLE images (
    id         CHAR(64)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    width      INT         NOT NULL,
    height     INT         NOT NULL,
    jpeg       MEDIUMBLOB  NOT NULL,
    created_at DATETIME(3) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE images;
