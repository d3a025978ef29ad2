package sqldb

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/test/testenv"
)

// A read of a whole sale may take longer than mysqlIOTimeout, and ends with its context.
func TestLongSnapshotEndsOnlyWithContext(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	db, err := OpenMySQL(testenv.MySQLDSN(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	a := Access{db}
	slow := func(tx *gorm.DB) error {
		return tx.Exec("DO SLEEP(?)", (mysqlIOTimeout + time.Second/2).Seconds()).Error
	}
	require.NoError(t, a.LongSnapshot(t.Context(), slow))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Error(t, a.LongSnapshot(ctx, slow))
}
