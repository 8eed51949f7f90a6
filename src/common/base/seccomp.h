/* common/base/seccomp.h - what a seccomp filter of the program would do with our system calls. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

/* The worst answer of the filter for any arguments.  KILLS: also SIGSYS, a supervisor, or an answer
 * that cannot be known beforehand. */
enum pfw_seccomp { PFW_SECCOMP_ALLOWS, PFW_SECCOMP_REFUSES, PFW_SECCOMP_KILLS };

/* The known state before each instruction: memory for as many as the filter has, at most
 * BPF_MAXINSNS. */
struct pfw_seccomp_state {
	uint32_t value; /* of the accumulator */
	bool known, reached;
};

enum pfw_seccomp pfw_seccomp_ask(const struct sock_filter *filter, unsigned count, long number,
				 struct pfw_seccomp_state *state);

/* For all calls of the recorder: the worst answer, and the name of the call that gets it.
 * *writer: whether the writer's thread can work under the filter.  Thread: any.  Signal: safe. */
enum pfw_seccomp pfw_seccomp_ask_all(const struct sock_filter *filter, unsigned count,
				     struct pfw_seccomp_state *state, const char **name,
				     bool *writer);
