/* tools/export/kineto.c - translates names between Kineto's traces and ours; see kineto.h. */
#include "export/kineto.h"

#include "store/json/walk.h"

struct kind {
	const char *name, *category;
	bool device;
};

static const struct kind kinds[] = { [PFW_KINETO_NONE] = { "", "", false },
#define X(name, category, device) [PFW_KINETO_##name] = { #name, category, device },
				     PFW_KINETO_KINDS(X)
#undef X
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

enum pfw_kineto_kind pfw_kineto_kind(const struct pfw_slice *name)
{
	for (unsigned i = 1; i < PFW_KINETO_device_annotation; i++) {
		if (pfw_member_is(name, kinds[i].name))
			return (enum pfw_kineto_kind)i;
	}
	return PFW_KINETO_NONE;
}

const char *pfw_kineto_category(enum pfw_kineto_kind kind)
{
	return kinds[kind].category;
}

bool pfw_kineto_on_device(enum pfw_kineto_kind kind)
{
	return kinds[kind].device;
}

enum pfw_kineto_kind pfw_kineto_kind_of_category(const struct pfw_slice *category)
{
	for (unsigned i = 1; i < KINDS; i++) {
		if (pfw_member_is(category, kinds[i].category))
			return (enum pfw_kineto_kind)i;
	}
	return PFW_KINETO_NONE;
}

const char *pfw_kineto_kind_name(enum pfw_kineto_kind kind)
{
	return kinds[kind == PFW_KINETO_device_annotation ? PFW_KINETO_annotation : kind].name;
}

#define KEY(name) pfw_member_is(key, #name) ? PFW_KINETO_KEY_##name:

/* Switch on the length first, since most keys match none. */
enum pfw_kineto_key pfw_kineto_key(const struct pfw_slice *key)
{
	switch (key->bytes) {
	case 4:
		return KEY(kind) KEY(gbps) KEY(addr) PFW_KINETO_KEY_OTHER;
	case 5:
		return KEY(bytes) KEY(stack) KEY(graph) PFW_KINETO_KEY_OTHER;
	case 6:
		return KEY(stream) KEY(device) KEY(dtypes) KEY(module) PFW_KINETO_KEY_OTHER;
	case 7:
		return KEY(context) KEY(strides) KEY(fwd_tid) PFW_KINETO_KEY_OTHER;
	case 8:
		return KEY(sequence) KEY(host_pid) PFW_KINETO_KEY_OTHER;
	case 9:
		return KEY(registers) KEY(occupancy) PFW_KINETO_KEY_OTHER;
	case 10:
		return KEY(graph_node) KEY(src_device) KEY(dst_device) PFW_KINETO_KEY_OTHER;
	case 11:
		return KEY(correlation) KEY(external_id) KEY(static_smem) PFW_KINETO_KEY_OTHER;
	case 12:
		return KEY(device_index) KEY(dynamic_smem) KEY(input_shapes) PFW_KINETO_KEY_OTHER;
	case 13:
		return KEY(wait_on_event) KEY(blocks_per_sm) PFW_KINETO_KEY_OTHER;
	case 14:
		return KEY(total_reserved) PFW_KINETO_KEY_OTHER;
	case 15:
		return KEY(total_allocated) PFW_KINETO_KEY_OTHER;
	default:
		return PFW_KINETO_KEY_OTHER;
	}
}

const char *pfw_kineto_key_theirs(enum pfw_kineto_key key)
{
	static const char *const theirs[] = {
#define X(name, text) [PFW_KINETO_KEY_##name] = text,
		PFW_KINETO_KEYS(X)
#undef X
	};

	return theirs[key];
}

const char *pfw_kineto_key_ours(const struct pfw_slice *theirs)
{
#define X(name, text)                    \
	if (pfw_member_is(theirs, text)) \
		return #name;
	PFW_KINETO_KEYS(X)
#undef X
	return NULL;
}

bool pfw_kineto_launches(const struct pfw_slice *name)
{
	static const char *const begins[] = { "cudaLaunch", "cudaMemcpy", "cudaMemset",
					      "cudaGraphLaunch", "cuLaunchKernel" };

	if (name->bytes < 10 || name->at[0] != 'c' || name->at[1] != 'u')
		return false;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		if (pfw_slice_begins(name, begins[i]))
			return true;
	}
	return false;
}
