-- The routines by which most changes are committed and most claims served.

-- name: settle
SELECT stoker.settle($1, $2, $3, $4, $5, $6, $7, $8)

-- name: forget
SELECT stoker.forget($1, $2, $3)

-- name: place
SELECT stoker.place($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)

-- name: place_alike
SELECT stoker.place_alike($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

-- name: place_one
SELECT stoker.place_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
    $16, $17)

-- name: stand
SELECT stoker.stand($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: stand_no_more
SELECT stoker.stand_no_more($1)

-- name: claim
SELECT * FROM stoker.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: claim_lanes
SELECT * FROM stoker.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, by_lanes => true)
