#include "symbolic/interop/logs.h"

#include <array>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {
namespace {

constexpr const char* kNames[] = {
#define CDYNAMO_TOPIC(id, name, doc) name,
    CDYNAMO_TOPICS(CDYNAMO_TOPIC)
#undef CDYNAMO_TOPIC
};

std::array<bool, static_cast<size_t>(Topic::kCount)> enabled_topics{};

void emit(const std::string& logger_name, const char* method, const std::string& message) {
  // A pending exception belongs to the caller and survives the logging.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  {
    PyRef logging = PyRef::steal(PyImport_ImportModule("logging"));
    PyRef logger;
    if (logging)
      logger = PyRef::steal(PyObject_CallMethod(logging.get(), "getLogger", "s", logger_name.c_str()));
    PyRef text = PyRef::steal(PyUnicode_DecodeUTF8(message.data(), message.size(), "replace"));
    PyRef done;
    if (logger && text)
      done = PyRef::steal(PyObject_CallMethod(logger.get(), method, "sO", "%s", text.get()));
    if (!done) PyErr_WriteUnraisable(logger.get());
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace

const char* topic_name(Topic topic) { return kNames[static_cast<int>(topic)]; }
bool log_enabled(Topic topic) { return enabled_topics[static_cast<int>(topic)]; }
void set_log_enabled(Topic topic, bool enabled) { enabled_topics[static_cast<int>(topic)] = enabled; }

void log(Topic topic, const std::string& message) {
  emit(std::string("cdynamo.") + topic_name(topic), "info", message);
}

void log_warning(const std::string& message) { emit("cdynamo", "warning", message); }

}  // namespace cdynamo::symbolic
