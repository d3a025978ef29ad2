package repo

import (
	"context"
	"database/sql"
	"reflect"
	"time"

	"gorm.io/gorm/schema"
)

// optional is the serializer of numbers, of times, and of durations, which are columns of seconds. The zero value is NULL, but
// 0 seconds in a column that is never NULL.
type optional struct{}

// Scan implements schema.SerializerInterface.
func (optional) Scan(ctx context.Context, field *schema.Field, row reflect.Value, value any) error {
	target := field.ReflectValueOf(ctx, row)
	if target.Kind() == reflect.Struct {
		var at sql.NullTime
		err := at.Scan(value)
		target.Set(reflect.ValueOf(at.Time))
		return err
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
	if reflect.ValueOf(value).IsZero() && !field.NotNull {
		return nil, nil //nolint:nilnil // NULL
	}
	if d, isDuration := value.(time.Duration); isDuration {
		return int64(d / time.Second), nil
	}
	return value, nil
}
