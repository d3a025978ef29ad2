package repo

import (
	"context"
	"database/sql"
	"reflect"
	"time"

	"gorm.io/gorm/schema"
)

// optional is the serializer of numbers, of times, of durations, which are columns of seconds, and of arrays of bytes, which
// drivers do not store. The zero value is NULL, but 0 seconds in a column that is never NULL.
type optional struct{}

// Scan implements schema.SerializerInterface.
func (optional) Scan(ctx context.Context, field *schema.Field, row reflect.Value, value any) error {
	target := field.ReflectValueOf(ctx, row)
	switch target.Kind() {
	case reflect.Struct:
		// SQLite returns the milliseconds of an expression, which has no declared type.
		if millis, isNumber := value.(int64); isNumber {
			value = time.UnixMilli(millis).UTC()
		}

		var at sql.NullTime
		err := at.Scan(value)
		target.Set(reflect.ValueOf(at.Time))
		return err
	case reflect.Array:
		stored, _ := value.([]byte)
		target.SetZero()
		reflect.Copy(target, reflect.ValueOf(stored))
		return nil
	}

	var n sql.NullInt64
	err := n.Scan(value)
	if field.FieldType == reflect.TypeFor[time.Duration]() {
		n.Int64 *= int64(time.Second)
	}

	target.SetInt(n.Int64)
	return err
}

// Value implements schema.SerializerInterface.
func (optional) Value(_ context.Context, field *schema.Field, _ reflect.Value, value any) (any, error) {
	v := reflect.ValueOf(value)
	if v.IsZero() && !field.NotNull {
		return nil, nil //nolint:nilnil // NULL
	}

	if v.Kind() == reflect.Array {
		stored := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(stored), v)
		return stored, nil
	}
	if d, isDuration := value.(time.Duration); isDuration {
		return int64(d / time.Second), nil
	}

	return value, nil
}
