/* chrome_flows.c - which forward operator a backward one belongs to; see export_chrome.h. */
#include <errno.h>
#include <stdlib.h>

#include "export_chrome.h"

/* Forward operators that wait for their backward one: 40 MiB of them. */
#define FLOWS_MAX (1u << 19)

static struct chrome_flow *find(const struct chrome_flows *flows, uint64_t process,
				uint64_t sequence)
{
	uint64_t hash = (sequence + process * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

	for (uint64_t i = hash >> 24;; i++) {
		struct chrome_flow *flow = &flows->flow[i & (flows->room - 1)];

		if (!flow->process || (flow->process == process && flow->sequence == sequence))
			return flow;
	}
}

/* Twice the room, or, once there are FLOWS_MAX, forget those that nobody came for. */
static int grow(struct chrome_flows *flows)
{
	bool forget = flows->count >= FLOWS_MAX;
	struct chrome_flows bigger = { .room = forget	     ? flows->room
					       : flows->room ? flows->room * 2
							     : 256 };

	bigger.flow = calloc(bigger.room, sizeof(*bigger.flow));
	if (!bigger.flow)
		return -ENOMEM;
	for (size_t i = 0; i < flows->room && !forget; i++) {
		if (flows->flow[i].process)
			*find(&bigger, flows->flow[i].process, flows->flow[i].sequence) =
				flows->flow[i];
	}
	free(flows->flow);
	flows->flow = bigger.flow;
	flows->room = bigger.room;
	if (forget)
		flows->count = 0;
	return 0;
}

int chrome_flows_forward(struct chrome_flows *flows, uint32_t process, uint64_t sequence,
			 const struct chrome_end *at)
{
	struct chrome_flow *flow;

	if (2 * (flows->count + 1) > flows->room && grow(flows))
		return -ENOMEM;
	flow = find(flows, (uint64_t)process + 1, sequence);
	flows->count += !flow->process;
	*flow = (struct chrome_flow){ (uint64_t)process + 1, sequence, *at };
	return 0;
}

bool chrome_flows_backward(struct chrome_flows *flows, uint32_t process, uint64_t sequence,
			   struct chrome_end *forward)
{
	struct chrome_flow *flow;

	if (!flows->room)
		return false;
	flow = find(flows, (uint64_t)process + 1, sequence);
	if (!flow->process || flow->forward.ts_ns == INT64_MAX)
		return false;
	*forward = flow->forward;
	flow->forward.ts_ns = INT64_MAX; /* taken; the slot stays, others may lie behind it */
	return true;
}

void chrome_flows_free(struct chrome_flows *flows)
{
	free(flows->flow);
	*flows = (struct chrome_flows){ 0 };
}
