package auth

import (
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// scopes are the scopes that a gateway's methods need. Other methods are refused.
var scopes = map[string]Scope{
	triskelev1.RecallService_Recall_FullMethodName:          Recall,
	triskelev1.RecallService_GetIndexStatus_FullMethodName:  Recall,
	triskelev1.MemoryService_Get_FullMethodName:             Read,
	triskelev1.MemoryService_List_FullMethodName:            Read,
	triskelev1.MemoryService_Export_FullMethodName:          Read,
	triskelev1.MemoryService_GetNamespace_FullMethodName:    Read,
	triskelev1.MemoryService_ListDecisions_FullMethodName:   Read,
	triskelev1.MemoryService_Remember_FullMethodName:        Write,
	triskelev1.MemoryService_Update_FullMethodName:          Write,
	triskelev1.MemoryService_Supersede_FullMethodName:       Write,
	triskelev1.MemoryService_Forget_FullMethodName:          Write,
	triskelev1.MemoryService_Import_FullMethodName:          Write,
	triskelev1.MemoryService_RevertDecision_FullMethodName:  Write,
	triskelev1.MemoryService_ListNamespaces_FullMethodName:  Admin,
	triskelev1.MemoryService_RenameNamespace_FullMethodName: Admin,
	triskelev1.MemoryService_DeleteNamespace_FullMethodName: Admin,
	rpc.Operate: Admin,
}

func writes(method string) bool {
	return scopes[method] == Write || method == triskelev1.MemoryService_RenameNamespace_FullMethodName || method == triskelev1.MemoryService_DeleteNamespace_FullMethodName
}

// stored counts the memories that a request stores, by namespace. Those of a dry run count too.
func stored(request any) map[string]int {
	switch r := request.(type) {
	case *triskelev1.RememberRequest:
		return map[string]int{r.GetMemory().GetNamespace(): 1}
	case *triskelev1.SupersedeRequest:
		return map[string]int{r.GetReplacement().GetNamespace(): 1}
	case *triskelev1.ImportRequest:
		n := map[string]int{}
		for _, m := range r.GetMemories() {
			n[m.GetNamespace()]++
		}
		return n
	}
	return nil
}

// namespaces returns the namespaces that a request names. ListNamespaces names none: Token.list restricts it.
func namespaces(request any) []string {
	switch r := request.(type) {
	case *triskelev1.RecallRequest:
		return r.GetNamespaces()
	case *triskelev1.RememberRequest:
		return []string{r.GetMemory().GetNamespace()}
	case *triskelev1.SupersedeRequest:
		return []string{r.GetReplacement().GetNamespace()}
	case *triskelev1.ImportRequest:
		var names []string
		last := ""
		for _, m := range r.GetMemories() { // mostly of one namespace
			if n := m.GetNamespace(); len(names) == 0 || n != last {
				names, last = append(names, n), n
			}
		}
		return names
	case *triskelev1.RenameNamespaceRequest:
		return []string{r.GetNamespace(), r.GetNewName()}
	case interface{ GetNamespace() string }:
		return []string{r.GetNamespace()}
	}
	return nil
}
