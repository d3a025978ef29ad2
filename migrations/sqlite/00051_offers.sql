-- +goose Up
-- What vouchers say to their buyers. An offer never changes, and its id is a hash of it: orders refer to the one that was
-- bought. shop_name: empty if there is no such shop.
CREATE TABLE offers (
    id           BLOB    PRIMARY KEY NOT NULL,
    title        TEXT    NOT NULL,
    sub_title    TEXT    NOT NULL,
    rules        TEXT    NOT NULL,
    actual_value INTEGER NOT NULL,
    shop_id      INTEGER NOT NULL,
    shop_name    TEXT    NOT NULL
);

-- +goose Down
DROP TABLE offers;
