-- +goose Up
-- What vouchers say to their buyers. An offer never changes, and its id is a hash of it: orders refer to the one that was
-- bought. shop_name: empty if there is no such shop.
CREATE TABLE offers (
    id           BINARY(16)    NOT NULL,
    title        VARCHAR(255)  NOT NULL,
    sub_title    VARCHAR(255)  NOT NULL,
    rules        VARCHAR(1024) NOT NULL,
    actual_value BIGINT        NOT NULL,
    shop_id      BIGINT        NOT NULL,
    shop_name    VARCHAR(128)  NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE offers;
