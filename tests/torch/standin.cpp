// standin.cpp - as much of libtorch_cpu.so as PFW_TORCH_OPS uses, with the types of PyTorch's
// ATen/record_function.h, so that the C side meets what a C++ compiler really makes of them.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace at {

enum class RecordScope : uint8_t { FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 7, NUM_SCOPES = 10 };

struct ObserverContext {
	virtual ~ObserverContext() {}
};

class RecordFunction;

class RecordFunctionCallback {
public:
	using StartCallback = std::unique_ptr<ObserverContext> (*)(const RecordFunction &);
	using EndCallback = void (*)(const RecordFunction &, ObserverContext *);

	StartCallback start_;
	EndCallback end_;
	double sampling_prob_ = 1.0;
	std::array<bool, 10> scopes_ = {};
	bool needs_inputs_ = false, needs_outputs_ = false, needs_ids_ = false;
};

using CallbackHandle = uint64_t;

static std::mutex lock;
static std::vector<std::pair<RecordFunctionCallback, CallbackHandle>> callbacks;
static CallbackHandle next_handle = 1;
static std::atomic<unsigned> added{0}, removed{0};

CallbackHandle addGlobalCallback(RecordFunctionCallback cb)
{
	std::lock_guard<std::mutex> guard(lock);
	callbacks.emplace_back(cb, next_handle);
	added++;
	return next_handle++;
}

void removeCallback(CallbackHandle handle)
{
	std::lock_guard<std::mutex> guard(lock);
	for (size_t i = 0; i < callbacks.size(); i++)
		if (callbacks[i].second == handle) {
			callbacks.erase(callbacks.begin() + (long)i);
			removed++;
			return;
		}
}

class RecordFunction {
public:
	RecordFunction(const char *name, RecordScope scope) : name_(name)
	{
		std::lock_guard<std::mutex> guard(lock);
		for (auto &[callback, handle] : callbacks)
			if (callback.scopes_[(size_t)scope] && callback.sampling_prob_ == 1.0)
				running_.emplace_back(callback.end_, callback.start_(*this));
	}
	~RecordFunction()
	{
		for (auto &[end, context] : running_)
			end(*this, context.get());
	}
	const char *name() const;

private:
	const char *name_;
	std::vector<std::pair<RecordFunctionCallback::EndCallback, std::unique_ptr<ObserverContext>>>
		running_;
};

const char *RecordFunction::name() const
{
	return name_;
}

} // namespace at

// For the program: begin and end an operator; how often somebody came and went.
extern "C" void *standin_begin(const char *name, int scope)
{
	return new at::RecordFunction(name, (at::RecordScope)scope);
}

extern "C" void standin_end(void *function)
{
	delete (at::RecordFunction *)function;
}

extern "C" unsigned standin_added(void)
{
	return at::added;
}

extern "C" unsigned standin_removed(void)
{
	return at::removed;
}
