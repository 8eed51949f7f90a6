/* recorder/stack/stack.c - when to take a stack, and what it consists of; see stack.h. */
#include "recorder/stack/stack.h"

#include "common/base/os.h"
#include "common/format/clock.h"
#include "common/settings/config.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/stacks.h"
#include "recorder/stack/python.h"
#include "recorder/stack/unwind.h"

uint64_t pfw_stack_ticks = UINT64_MAX;
uint32_t pfw_stack_every = 1;

void pfw_stack_init(const struct pfw_config *config)
{
	const struct pfw_stack_when *when = &config->stack;

	pfw_stack_ticks = UINT64_MAX;
	pfw_stack_every = when->every ? (uint32_t)when->every : 1;
	if (!when->min_ns && !when->every)
		return;
	pfw_unwind_init();
	pfw_modules_init();
	pfw_python_init();
	/* Calls that are only summed are not counted. */
	pfw_stack_ticks = pfw_clock_ticks_of(when->every ? config->min_dur_ns : when->min_ns);
}

/* Frames of the program's code, up to the interpreter's; and Python's. */
static unsigned take_frames(struct pfw_unwind *walk, uint64_t *frame)
{
	enum pfw_unwind_end end = PFW_UNWIND_ON;
	unsigned count = 0, python;
	bool ours = true;

	for (unsigned steps = 0; end == PFW_UNWIND_ON && steps < 2 * PFW_STACK_FRAMES; steps++) {
		const struct pfw_module *module = pfw_unwind_module(walk);

		ours = ours && module && module->ours;
		if (!ours && count < PFW_STACK_FRAMES && pfw_python_has(walk->pc)) {
			python = pfw_python_frames(frame + count, PFW_STACK_FRAMES - count,
						   walk->signal);
			if (python)
				return count + python;
		}
		if (!module || module->number < 0 || count == PFW_STACK_FRAMES)
			end = PFW_UNWIND_CUT;
		else if (!ours)
			frame[count++] = pfw_module_frame(module, walk->pc);
		if (end == PFW_UNWIND_ON)
			end = pfw_unwind_up(walk, module);
	}
	if (end == PFW_UNWIND_DONE)
		return count;
	/* Python's frames are known even where the way to them is not. */
	if (!count)
		return pfw_python_frames(frame, PFW_STACK_FRAMES, walk->signal);
	if (count == PFW_STACK_FRAMES)
		count--;
	frame[count++] = pfw_frame(PFW_FRAME_CUT, 0);
	return count + pfw_python_frames(frame + count, PFW_STACK_FRAMES - count, walk->signal);
}

uint32_t pfw_stack_take(struct pfw_stack_thread *thread)
{
	uint64_t frame[PFW_STACK_FRAMES];
	struct pfw_unwind walk;
	unsigned count = 1;

	uint32_t stack = 0;

	if (pfw_stacks) {
		pfw_unwind_begin(&walk, thread);
		count = take_frames(&walk, frame);
		stack = count ? pfw_stacks_add(frame, count) : 0;
	}
	if (!stack)
		atomic_fetch_add_explicit(
			&pfw_ring_host.header->stacks_lost[count ? PFW_STACKS_LOST_FULL
								 : PFW_STACKS_LOST_FAILED],
			1, memory_order_relaxed);
	return stack;
}
