package rpc

import (
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// CompileRules compiles the validation rules of all requests of the server's services. Otherwise the first call of
// each kind waits for it, ten milliseconds or more. A program that ends after one call needs none.
func (s *Server) CompileRules() {
	for name := range s.GetServiceInfo() {
		found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		service, known := found.(protoreflect.ServiceDescriptor)
		if !known {
			continue
		}
		for i := range service.Methods().Len() {
			if request, err := protoregistry.GlobalTypes.FindMessageByName(service.Methods().Get(i).Input().FullName()); err == nil {
				_ = protovalidate.Validate(request.New().Interface()) // compiles the rules
			}
		}
	}
}
