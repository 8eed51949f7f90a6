/* trace_owner.h - whether a trace is that of the process which a spool names. */
#ifndef PFW_TRACE_OWNER_H
#define PFW_TRACE_OWNER_H

struct pfw_spool_header;

enum pfw_trace_owner {
	PFW_TRACE_OURS,	   /* its first line names this process */
	PFW_TRACE_OTHER,   /* its first line is another's */
	PFW_TRACE_UNKNOWN, /* it has no whole first line */
};

/* Look at the first line of the trace behind fd, which is not moved. */
enum pfw_trace_owner pfw_trace_owner(int fd, const struct pfw_spool_header *header);

#endif
