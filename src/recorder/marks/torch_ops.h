/* recorder/marks/torch_ops.h - PyTorch's operators as compute events, its batches as steps.
 *
 * PFW_TORCH_OPS records operators without torch.profiler; PFW_STEP=auto counts batches as steps.
 * at::addGlobalCallback() of ATen/record_function.h reports the begin and the end of each operator;
 * PyTorch has it "for fleet-wide monitoring".  Its types are C++'s, so torch_ops.c declares each as
 * the compiler lays it out, and leaves PyTorch versions alone that were not tested.
 */
#pragma once

#include <stdbool.h>

struct pfw_config;

/* Whether PFW_STEP=auto is set: PyTorch's batches, not a span's name, are steps.  Thread: any.
 * Signal: safe. */
bool pfw_torch_steps(const struct pfw_config *config);

void pfw_torch_ops_init(const struct pfw_config *config);

/* Register with PyTorch if it is loaded and events are recorded.  True: PyTorch may still come, so
 * call again soon.  Thread: drain, one that libc knows (dlopen). */
bool pfw_torch_ops_tick(void);

/* Fork: the child has no profile of its parent's to write.  Thread: the child's only one. */
void pfw_torch_ops_forked(void);

/* Recording was switched: register or remove callbacks, effective from the next operator on.
 * Thread: app.  Signal: unsafe. */
void pfw_torch_ops_listen(void);
