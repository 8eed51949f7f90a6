/* recorder/marks/torch_loader.h - which iterator of a DataLoader makes the steps, and when it ends.
 *
 * at::RecordFunction reports only that some iterator is asked for a batch, not which one, nor that
 * it has none left.  Python knows both: torch_loader.c looks at the frame of __next__().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * An iterator is asked for a batch.  True: it makes the steps, as it did before or because the one
 * that did is exhausted or gone.  Without Python's functions always true.
 * Thread: app, in DataLoader's __next__().  Signal: unsafe (takes Python's lock).
 */
bool pfw_torch_loader_asked(void);

/* The iterator has answered.  True: it makes the steps and has no batch left.  Thread, Signal: as above. */
bool pfw_torch_loader_exhausted(void);

/*
 * An iterator is asked for a batch: tell the pids of its worker processes and their numbers, as
 * torch.utils.data.get_worker_info() has them; each iterator's once.  Thread, Signal: the same.
 */
typedef void pfw_loader_worker(int64_t pid, uint64_t number);
void pfw_torch_loader_workers(pfw_loader_worker *tell);
