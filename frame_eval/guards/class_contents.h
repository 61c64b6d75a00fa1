// ClassContents: what a class and its bases hold, name by name. A class's version says that somebody has written to it, not
// that it is another one now: DistributedDataParallel sets an attribute of its class for the time of each forward. So a class whose version
// was seen to change is compared by its contents from then on.
#pragma once

#include <memory>
#include <vector>

#include "symbolic/interop/constant_ref.h"

namespace cdynamo::frame_eval {

class ClassContents {
 public:
  // Its version is not the one that an entry was compiled for.
  static void note_change(PyTypeObject* type);
  // Null where no change of it has been noted.
  static std::shared_ptr<const ClassContents> of(PyTypeObject* type);

  // The same bases, and in each the very same objects under the same names?
  bool are_those_of(PyTypeObject* type) const;

 private:
  // Nothing that leads back to the class is held, which could not die then: of a property its functions, weakly.
  struct Item {
    symbolic::PyRef name;
    const void* value;  // addresses, not references
    const PyTypeObject* kind;
    bool is_written;  // by captured code (written_names.h): what stands there has a guard of its own
    std::vector<symbolic::ConstantRef> parts;  // that it is the same one, and not another at its address
  };
  struct Base {
    symbolic::ConstantRef type;
    std::vector<Item> items;  // none of what cannot be written to
  };
  explicit ClassContents(PyTypeObject* type);
  static bool is_same(const Base& base, PyTypeObject* type);

  std::vector<Base> bases_;  // in the order of its MRO
};

}  // namespace cdynamo::frame_eval
