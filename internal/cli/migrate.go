package cli

import (
	"fmt"
	"text/tabwriter"

	"seckill/internal/app"
	"seckill/internal/repo"
)

type migrateCmd struct {
	Action string `arg:"" name:"up|down|status" enum:"up,down,status" help:"up applies pending migrations, down rolls back the newest one, status lists all."`
}

// Run applies, rolls back or lists migrations.
func (m migrateCmd) Run(e *app.Env) error {
	store, err := app.OpenStore(e.Config)
	if err != nil {
		return err
	}
	defer store.Close()

	if err := app.WaitFor(e, "the database", store.Ping); err != nil {
		return err
	}

	switch m.Action {
	case "up":
		return m.up(e, store)
	case "down":
		return m.down(e, store)
	}

	return m.status(e, store)
}

func (migrateCmd) up(e *app.Env, store *repo.Store) error {
	applied, err := store.MigrateUp(e.Ctx)
	for _, mig := range applied {
		fmt.Fprintln(e.Out, "applied", mig.Name)
	}
	if err == nil && len(applied) == 0 {
		fmt.Fprintln(e.Out, "nothing to apply")
	}
	return err
}

func (migrateCmd) down(e *app.Env, store *repo.Store) error {
	rolledBack, err := store.MigrateDown(e.Ctx)
	switch {
	case err != nil:
		return err
	case rolledBack == nil:
		fmt.Fprintln(e.Out, "nothing to roll back")
	default:
		fmt.Fprintln(e.Out, "rolled back", rolledBack.Name)
	}

	return nil
}

func (migrateCmd) status(e *app.Env, store *repo.Store) error {
	all, err := store.Migrations(e.Ctx)
	if err != nil {
		return err
	}

	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	for _, mig := range all {
		applied := "pending"
		if !mig.Applied.IsZero() {
			applied = mig.Applied.UTC().Format("2006-01-02 15:04:05Z")
		}
		fmt.Fprintf(w, "%s\t%s\n", mig.Name, applied)
	}

	return w.Flush()
}
