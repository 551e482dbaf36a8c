package rpc

import (
	"fmt"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// NameOf returns the name of a method in calls, such as /triskele.v1.RecallService/Recall.
func NameOf(method protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
}

// NewMessage returns an empty message of the type that was generated for a description. It panics if this program has none.
func NewMessage(described protoreflect.MessageDescriptor) proto.Message {
	generated, err := protoregistry.GlobalTypes.FindMessageByName(described.FullName())
	if err != nil {
		panic(fmt.Sprintf("%s: %v", described.FullName(), err))
	}
	return generated.New().Interface()
}

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
			_ = protovalidate.Validate(NewMessage(service.Methods().Get(i).Input())) // compiles the rules
		}
	}
}
