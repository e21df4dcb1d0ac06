/* The types and constants of LLVM's C API that are used here, declared as the API's documentation gives them for LLVM
 * 19 (https://llvm.org/doxygen/group__LLVMC.html), so that LLVM's headers are not needed to build Einkorn. Objects are
 * pointers to records that only LLVM knows. */
#ifndef EK_LLVM_API_H
#define EK_LLVM_API_H
#include <stddef.h>
#include <stdint.h>

#define OPAQUE(name) typedef struct name##_object *name
OPAQUE(LLVMAttributeRef);
OPAQUE(LLVMBasicBlockRef);
OPAQUE(LLVMBuilderRef);
OPAQUE(LLVMContextRef);
OPAQUE(LLVMDiagnosticInfoRef);
OPAQUE(LLVMErrorRef);
OPAQUE(LLVMMemoryBufferRef);
OPAQUE(LLVMMetadataRef);
OPAQUE(LLVMModuleRef);
OPAQUE(LLVMOrcJITDylibRef);
OPAQUE(LLVMOrcJITTargetMachineBuilderRef);
OPAQUE(LLVMOrcLLJITBuilderRef);
OPAQUE(LLVMOrcLLJITRef);
OPAQUE(LLVMOrcMaterializationUnitRef);
OPAQUE(LLVMOrcSymbolStringPoolEntryRef);
OPAQUE(LLVMPassBuilderOptionsRef);
OPAQUE(LLVMTargetDataRef);
OPAQUE(LLVMTargetMachineRef);
OPAQUE(LLVMTargetRef);
OPAQUE(LLVMTypeRef);
OPAQUE(LLVMValueRef);
#undef OPAQUE
typedef void *LLVMDisasmContextRef;
typedef int LLVMBool; /* LLVMVerifyModule and the like: not 0 is a failure */
typedef unsigned LLVMAttributeIndex;
typedef unsigned LLVMFastMathFlags;
typedef uint64_t LLVMOrcExecutorAddress;

typedef enum LLVMCodeGenFileType { LLVMAssemblyFile, LLVMObjectFile } LLVMCodeGenFileType;
typedef enum LLVMCodeGenOptLevel { LLVMCodeGenLevelNone = 0, LLVMCodeGenLevelDefault = 2 } LLVMCodeGenOptLevel;
typedef enum LLVMCodeModel { LLVMCodeModelDefault } LLVMCodeModel;
typedef enum LLVMDiagnosticSeverity { LLVMDSError } LLVMDiagnosticSeverity;
typedef enum LLVMIntPredicate {
  LLVMIntEQ = 32,
  LLVMIntNE,
  LLVMIntUGT,
  LLVMIntUGE,
  LLVMIntULT,
  LLVMIntULE,
  LLVMIntSGT,
  LLVMIntSGE,
  LLVMIntSLT,
  LLVMIntSLE
} LLVMIntPredicate;
typedef enum LLVMLinkage { LLVMInternalLinkage = 8, LLVMPrivateLinkage = 9 } LLVMLinkage;
typedef enum LLVMRealPredicate {
  LLVMRealOEQ = 1,
  LLVMRealOGT = 2,
  LLVMRealOGE = 3,
  LLVMRealOLT = 4,
  LLVMRealOLE = 5,
  LLVMRealUNO = 8,
  LLVMRealUNE = 14
} LLVMRealPredicate;
typedef enum LLVMRelocMode { LLVMRelocPIC = 2 } LLVMRelocMode;
typedef enum LLVMTypeKind { LLVMVectorTypeKind = 13 } LLVMTypeKind;
typedef enum LLVMUnnamedAddr { LLVMGlobalUnnamedAddr = 2 } LLVMUnnamedAddr;
typedef enum LLVMVerifierFailureAction { LLVMReturnStatusAction = 2 } LLVMVerifierFailureAction;
typedef enum LLVMVisibility { LLVMDefaultVisibility, LLVMHiddenVisibility } LLVMVisibility;
enum { LLVMDisassembler_ReferenceType_InOut_None = 0, LLVMDisassembler_ReferenceType_In_Branch = 1 };
enum { LLVMAttributeFunctionIndex = -1, LLVMFastMathNoSignedZeros = 1 << 3 };
enum { LLVMJITSymbolGenericFlagsExported = 1 << 0, LLVMJITSymbolGenericFlagsCallable = 1 << 2 };

typedef void (*LLVMDiagnosticHandler)(LLVMDiagnosticInfoRef, void *);
typedef int (*LLVMOpInfoCallback)(void *, uint64_t, uint64_t, uint64_t, uint64_t, int, void *);
typedef const char *(*LLVMSymbolLookupCallback)(void *, uint64_t, uint64_t *, uint64_t, const char **);
typedef struct LLVMJITSymbolFlags {
  uint8_t GenericFlags; /* LLVMJITSymbolGenericFlags.. */
  uint8_t TargetFlags;  /* 0 */
} LLVMJITSymbolFlags;
typedef struct LLVMJITEvaluatedSymbol {
  LLVMOrcExecutorAddress Address; /* address of the symbol */
  LLVMJITSymbolFlags Flags;       /* what kind of symbol it is */
} LLVMJITEvaluatedSymbol;
typedef struct LLVMOrcCSymbolMapPair {
  LLVMOrcSymbolStringPoolEntryRef Name; /* name of the symbol, in ORC's pool */
  LLVMJITEvaluatedSymbol Sym;           /* its address and flags */
} LLVMOrcCSymbolMapPair;
typedef LLVMOrcCSymbolMapPair *LLVMOrcCSymbolMapPairs;
#endif
