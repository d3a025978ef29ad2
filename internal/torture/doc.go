// Package torture runs fault campaigns: buyers, payments and admins use several servers of this program while servers,
// database, Redis and connections fail, about once a second. During the campaign and at its end, the promises I1 to I6
// are checked in the database and in what the buyers were answered.
//
// A campaign has its own MariaDB, its own Redis with a replica and three Sentinels, and a proxy in front of each of them
// and of each server. The seed fixes the faults, their targets and their durations, the purchases and what becomes of
// each order. It does not fix how processes and connections interleave.
package torture
