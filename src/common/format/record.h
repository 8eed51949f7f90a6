/* common/format/record.h - the record that a probe fills: 64-byte slots, no pointers past the call.
 *
 * A record is one slot or several adjacent ones.  Its template gives its meaning: name, category,
 * and keys in order.  Templates are kept in the spool, so that any version of pfw can decode the
 * rings of a dead process.
 *
 * The tail of a record is all bytes after its first slot, as one run:
 *   1. the values beyond the first four, 8 bytes each, in the order of the template's fields;
 *   2. the file name, if PFW_RECORD_NAME_INLINE is set: `file` bytes;
 *   3. the bytes of each STRING or JSON value, in field order (the value is their length).
 *   4. the number of its stack (stacks.h), 4 bytes, if PFW_RECORD_STACK is set.
 * 2 to 4 are packed without padding.  Nothing in the tail is NUL-terminated.  Tail slots hold
 * program bytes where a first slot holds `committed`: clear_tails() in recorder/spool/ring.c wipes
 * them before reuse.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/base/names.h"

#define PFW_SLOT_BYTES 64
#define PFW_RECORD_VALUES 4	 /* values held in the first slot */
#define PFW_RECORD_SLOTS_MAX 255 /* so a record is at most 16,320 bytes */
/* Template of slots that fill the end of a ring: a record never wraps around. */
#define PFW_TEMPLATE_PADDING 0xffffu

/* How a value is written as JSON. */
enum pfw_type {
	PFW_TYPE_NONE,
	PFW_TYPE_I64,
	PFW_TYPE_U64,
	PFW_TYPE_F64,	 /* the bits of a double; NaN and infinities become null */
	PFW_TYPE_BOOL,	 /* false | true */
	PFW_TYPE_STRING, /* value = length; the tail has the bytes, escaped on output */
	PFW_TYPE_JSON,	 /* the same, copied as JSON; written as a string if it is not JSON */
	PFW_TYPE_REF,	 /* value = a string of the spool (spool.h) */
	PFW_TYPE_DIM3,	 /* x in the low 31 bits, then y in 16, then z in 16: [x,y,z] */
	PFW_TYPE_KIND,	 /* enum pfw_kind: written as its name, see PFW_KINDS */
	PFW_TYPE_SOME,	 /* value = a number + 1; 0: not known, the member is left out */
	PFW_TYPE_NAMES,	 /* and following: a number written as names of enum pfw_names */
	PFW_TYPE_COUNT = PFW_TYPE_NAMES + PFW_NAMES_SETS
};

/* What the records of a template hold after the common head. */
enum pfw_shape {
	PFW_SHAPE_NONE,
	/* An intercepted call: name and category from the template; value[0] = ret, then the
	 * fields.  `file`: the file name, a string of the spool or the length of an inline one. */
	PFW_SHAPE_CALL,
	/* A span, instant or counter of the program (PFW_API_VALUES values, then a blob). */
	PFW_SHAPE_API,
	/* A compute event, cat PP: PFW_PP_HEAD values, then one for each bit of the mask. */
	PFW_SHAPE_PP,
	/* A program started without our variables: value[0] = pid, 0 = unknown; value[1] = length
	 * of the reason in the tail. */
	PFW_SHAPE_UNTRACED,
	PFW_SHAPE_COUNT
};

/* pfw_record.flags */
enum pfw_record_flags {
	PFW_RECORD_NAME_INLINE = 1, /* CALL: `file` is the length of the name, in the tail */
	PFW_RECORD_ANNOTATION = 1,  /* API: of kind "annotation" (NVTX) */
	PFW_RECORD_EPOCH_NS = 2,    /* t0 is ns since the epoch and dur ns, not clock ticks */
	PFW_RECORD_NO_RET = 4,	    /* CALL: the call did not return (exec, _exit): no ret */
	PFW_RECORD_INSTANT = 8,	    /* ph "i", no dur */
	PFW_RECORD_COUNTER = 16,    /* ph "C", no dur */
	PFW_RECORD_WARMUP = 32,	    /* phase "warmup" */
	PFW_RECORD_STACK = 64,	    /* CALL: its stack is in the tail */
	PFW_RECORD_ACTIVE = 64,	    /* phase "active"; neither: no phase key */
	PFW_RECORD_NO_FD = 128,	    /* CALL: the template has an fd field, this call has none */
	PFW_RECORD_LANE_NAME = 1,   /* PP: no event; names its stream, context or device */
};

struct pfw_record {
	/* The low 32 bits of position + 1.  Stored last: from then on the record exists. */
	_Atomic uint32_t committed;
	uint16_t template;
	uint8_t slots;
	uint8_t flags;
	uint64_t t0;
	uint64_t dur;
	uint32_t file;
	int32_t error; /* errno of a failed call, else 0 */
	uint64_t value[PFW_RECORD_VALUES];
};
_Static_assert(sizeof(struct pfw_record) == PFW_SLOT_BYTES, "a record is one slot");

/* PFW_SHAPE_API: value[0] = name (low 32 bits) and category (high), strings of the spool.  If a
 * half is zero, its text is at the start of the tail (`file` = name length | category length <<
 * 16).  value[1] = span_id, value[2] = parent (0 = none), value[3] = bytes of the blob of
 * arguments, which follows these texts: struct pfw_arg and its bytes, for each argument. */
#define PFW_API_VALUES 4

struct pfw_arg {
	uint16_t key_bytes; /* the key follows this struct */
	uint8_t type;	    /* enum pfw_type: I64 U64 F64 BOOL STRING JSON */
	uint8_t unused;
	uint32_t value_bytes; /* follow the key: the text of STRING or JSON, else 8 bytes */
};

/* PFW_SHAPE_PP: value[0] = name, a string of the spool; 0: the name is the first of the tail's
 * texts (`file` = its length).  value[1] = mask of the fields below.  value[2] = tid; 0: the lane
 * of device, context and stream if it has these, else the recording thread.  value[3] = the value
 * of the lowest bit of the mask; the others follow. */
#define PFW_PP_HEAD 3

/* The keys of a PP event's args: X(member and JSON key, type).  A key's position is its bit. */
#define PFW_PP_FIELDS(X)             \
	X(kind, KIND)                \
	X(device, I64)               \
	X(device_index, I64)         \
	X(context, U64)              \
	X(stream, U64)               \
	X(correlation, U64)          \
	X(external_id, U64)          \
	X(span, U64)                 \
	X(step, I64)                 \
	X(grid, DIM3)                \
	X(block, DIM3)               \
	X(registers, U64)            \
	X(static_smem, U64)          \
	X(dynamic_smem, U64)         \
	X(local_mem, U64)            \
	X(occupancy, F64)            \
	X(priority, I64)             \
	X(queued, U64)               \
	X(channel, U64)              \
	X(graph, U64)                \
	X(graph_node, U64)           \
	X(cbid, U64)                 \
	X(bytes, I64)                \
	X(copy_kind, STRING)         \
	X(src_kind, STRING)          \
	X(dst_kind, STRING)          \
	X(src_device, I64)           \
	X(dst_device, I64)           \
	X(gbps, F64)                 \
	X(wait_on_stream, U64)       \
	X(wait_on_event, U64)        \
	X(cpu_memory, I64)           \
	X(device_memory_usage, I64)  \
	X(is_remote, I64)            \
	X(input_size, I64)           \
	X(input_shapes, JSON)        \
	X(dtypes, JSON)              \
	X(strides, JSON)             \
	X(flops, U64)                \
	X(sequence, I64)             \
	X(fwd_tid, U64)              \
	X(module, STRING)            \
	X(python_id, U64)            \
	X(parent, U64)               \
	X(total_cpu_percent, F64)    \
	X(total_device_percent, F64) \
	X(stack, JSON)               \
	X(addr, U64)                 \
	X(total_allocated, I64)      \
	X(total_reserved, I64)       \
	X(blocks_per_sm, F64)

enum pfw_pp_bit {
#define X(name, type) PFW_PP_BIT_##name,
	PFW_PP_FIELDS(X)
#undef X
		PFW_PP_BITS
};
_Static_assert(PFW_PP_BITS <= 64, "the mask is one word");
