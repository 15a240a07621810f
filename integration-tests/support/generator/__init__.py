"""Random queries over random Parquet data, each of which must have the same answer with filters and without.

Everything comes from one whole number: `data.write` makes the tables of a seed, `queries.statement` the
statements, `subqueries.statement` others whose subqueries repeat their joins, `replanned`, `shared` and
`failing` those of other kinds, `settings.choose` what they run under. `running.Runner` runs one statement
twice and compares; `shrinking.shrink` makes a statement that fails small; `campaign` does all of it, seed
after seed.

From the bottom up: `kinds` (types and their values), `data` (tables and files), `model` (SQL as a tree),
`expressions`, `predicates`, `relations` (joins and subqueries), `queries` and the modules of the other kinds
(whole statements), `settings`, `comparison`, `running`, `shrinking`, `campaign`.
"""
