/* torch_ops.h - PyTorch's operators as compute events, without torch.profiler (PFW_TORCH_OPS), and its
 * batches as steps (PFW_STEP=auto).
 *
 * at::addGlobalCallback() of ATen/record_function.h tells of each operator's begin and end; it is
 * there "for fleet-wide monitoring".  Its types are C++'s, so each is written down here as the
 * compiler lays it out, and a PyTorch whose version nobody has tried is left alone.
 */
#ifndef PFW_TORCH_OPS_H
#define PFW_TORCH_OPS_H

#include <stdbool.h>

struct pfw_config;

/* PFW_STEP=auto: what PyTorch calls a batch, rather than a span's name, is a step.  Thread: any.
 * Signal: safe. */
bool pfw_torch_steps(const struct pfw_config *config);

/* Thread: init. */
void pfw_torch_ops_init(const struct pfw_config *config);

/*
 * Look whether PyTorch has been loaded, and listen to it while events are recorded.  True: it is
 * still being waited for, so come again soon.  Thread: drain, one that libc knows (dlopen).
 */
bool pfw_torch_ops_tick(void);

/* A forked child has no profile under way that it could write.  Thread: the child's only one. */
void pfw_torch_ops_forked(void);

/* Recording has been switched on or off: so is the listening, from the next operator on.  Thread: app.
 * Signal: unsafe. */
void pfw_torch_ops_listen(void);

#endif
