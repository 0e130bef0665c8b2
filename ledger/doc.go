// Package ledger keeps one bounded record of each run of a function in PostgreSQL: a Keeper makes the tables, Writers fill them, Readers
// look them up. Nobody has to wait for it: what can't be written is lost and counted.
package ledger
