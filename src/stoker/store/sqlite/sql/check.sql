-- Statements that hold what is counted against what is there.

-- name: unbalanced
-- Queues whose counts are not those of their jobs, the first few by name.
SELECT queue.name FROM queue LEFT JOIN job ON job.queue = queue.id
GROUP BY queue.id
HAVING (queued, running, waiting, finished, failed, cancelled) IS NOT
    (total(state = 0), total(state = 1), total(state = 2),
     total(state = 3), total(state = 4), total(state = 5))
ORDER BY queue.name LIMIT ?
