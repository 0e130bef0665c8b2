package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Written remembers how new the objects of one kind were when this process wrote them last. A cache is behind the API server for a
// moment, and a pass that began with the object of before would undo what the last one did. The zero value is ready.
type Written struct {
	last sync.Map // client.ObjectKey to write
}

type write struct {
	version string
	at      time.Time
}

// behindFor is how long a cache may be behind; after it, what the cache has counts, as the history may have begun anew.
const behindFor = 30 * time.Second

// Note remembers an object as the answer to a write has it.
func (w *Written) Note(object client.Object) {
	w.last.Store(client.ObjectKeyFromObject(object), write{object.GetResourceVersion(), time.Now()})
}

// Behind says that an object, as the cache has it, is older than what was written. When it is not, what was written is forgotten.
func (w *Written) Behind(object client.Object) bool {
	key := client.ObjectKeyFromObject(object)
	last, ok := w.last.Load(key)
	if !ok {
		return false
	}
	write := last.(write)
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), write.version)
	if err == nil && order < 0 && time.Since(write.at) < behindFor {
		return true
	}
	w.last.Delete(key)
	return false
}

// Forget is for an object that is gone.
func (w *Written) Forget(key client.ObjectKey) { w.last.Delete(key) }
